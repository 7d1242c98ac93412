//go:build probe

// Proxy prints the flags of kube-proxy. It takes all that any linked package defines, so it is a program of its own.
package main

import (
	"flag"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-proxy/app"
)

func main() {
	flags := pflag.NewFlagSet("kube-proxy", pflag.ContinueOnError)
	app.NewOptions().AddFlags(flags)
	flags.AddGoFlagSet(flag.CommandLine)
	show("kube-proxy", flags)
}
