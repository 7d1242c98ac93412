
set edit:completion:arg-completer[cluster-health] = { |@words|
    var index = (count $words)
    set index = (- $index 1)

    put (env _CLAP_IFS="\n" _CLAP_COMPLETE_INDEX=(to-string $index) CLUSTER_HEALTH_COMPLETE="elvish" cluster-health -- $@words) | to-lines
}

