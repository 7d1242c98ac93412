// Knowledge extracts from published modules what Kubernetes, etcd and Talos accept, and writes it as tables.
//
//	go run . CACHE TABLES
//
// CACHE keeps the builds for each version of Kubernetes, which take three minutes on two cores each, once. TABLES is the directory of the
// tables. An unchanged table keeps its date, so a second run changes nothing. Names, versions, stages and defaults are facts; nothing else
// is copied.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A late patch of each minor version that the module proxy has.
var kubernetes = []string{
	"1.30.14", "1.31.14", "1.32.13", "1.33.13", "1.34.4", "1.35.4", "1.36.3", "1.37.2",
}

var etcd = []string{"3.5.35", "3.6.16", "3.7.3"}

// Versions of Talos whose main module is on the proxy, one for each minor version.
var talos = []string{"1.12.6", "1.13.0", "1.14.1"}

func main() {
	log.SetFlags(0)
	log.SetPrefix("knowledge: ")
	if len(os.Args) != 3 {
		log.Fatal("usage: knowledge CACHE TABLES")
	}
	cache, tables := os.Args[1], os.Args[2]

	seen := make(map[string]Table) // by subject
	for _, version := range kubernetes {
		for subject, rows := range check(probe(cache, version)) {
			seen[subject] = append(seen[subject], Edition{version, rows})
		}
		seen["api"] = append(seen["api"], Edition{version, check(apis(version))})
	}
	write(tables, "kubernetes-flags", "component flag deprecated", seen["flag"])
	write(tables, "kubernetes-gates", "gate stage default locked", seen["gate"])
	write(tables, "kubernetes-plugins", "plugin", seen["plugin"])
	write(tables, "kubernetes-apis", "api kind removed", seen["api"])

	var flags, denied Table
	for _, version := range etcd {
		flags = append(flags, Edition{version, check(etcdFlags(version))})
	}
	write(tables, "etcd-flags", "flag", flags)
	for _, version := range talos {
		denied = append(denied, Edition{version, check(deniedArguments(version))})
	}
	write(tables, "talos-denied", "argument", denied)
	newest := talos[len(talos)-1]
	publish(tables, "talos-compatibility", "Talos "+newest, "talos\tfrom\tnot-back-from\tkubernetes", check(compatibility(newest)))
	rows := check(releases())
	publish(tables, "talos-etcd", minorsOf(rows), "talos\tetcd\tsource", rows)
}

// Row is one fact, its cells separated by tabs.
type Row = string

// Edition contains the facts of one version.
type Edition struct {
	version string
	rows    []Row
}

// Table contains the versions of one subject, oldest first.
type Table []Edition

// Write stores each row once, with the first and the last minor version to which it applies. An empty cell stands for the first or the last
// version of the table, so that a new version changes few lines.
func write(folder, name, columns string, table Table) {
	minors := make([]string, len(table))
	versions := make([]string, len(table))
	holds := make(map[Row][]bool)
	for at, edition := range table {
		if len(edition.rows) == 0 {
			log.Fatalf("%s: %s says nothing", name, edition.version)
		}
		versions[at] = edition.version
		minors[at] = edition.version[:strings.LastIndex(edition.version, ".")]
		for _, row := range edition.rows {
			if holds[row] == nil {
				holds[row] = make([]bool, len(table))
			}
			holds[row][at] = true
		}
	}
	var lines []string
	for row, in := range holds {
		for from := 0; from < len(in); from++ {
			if !in[from] {
				continue
			}
			to := from
			for to+1 < len(in) && in[to+1] {
				to++
			}
			since, until := minors[from], minors[to]
			if from == 0 {
				since = ""
			}
			if to == len(in)-1 {
				until = ""
			}
			lines = append(lines, row+"\t"+since+"\t"+until)
			from = to
		}
	}
	columns = strings.ReplaceAll(columns, " ", "\t") + "\tsince\tuntil"
	slices.Sort(lines)
	publish(folder, name, strings.Join(versions, " "), columns, lines)
}

// MinorsOf returns the minor versions that these rows begin with, each once.
func minorsOf(rows []string) string {
	var minors []string
	for _, row := range rows {
		parts := strings.SplitN(row, ".", 3)
		minors = append(minors, parts[0]+"."+parts[1])
	}
	return strings.Join(slices.Compact(minors), " ")
}

// Publish writes a table with its head, and keeps the date of an unchanged one.
func publish(folder, name, versions, columns string, lines []string) {
	path := filepath.Join(folder, name+".tsv")
	body := fmt.Sprintf("# versions: %s\n%s\n%s\n", versions, columns, strings.Join(lines, "\n"))
	old, _ := os.ReadFile(path)
	if _, same, found := strings.Cut(string(old), "\n"); found && same == body {
		return
	}
	head := fmt.Sprintf("# made by `make knowledge` on %s\n", time.Now().UTC().Format(time.DateOnly))
	check(0, os.WriteFile(path, []byte(head+body), 0o644))
	log.Printf("%s: %d rows, changed", path, len(lines))
}

func check[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
