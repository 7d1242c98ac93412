package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"go/ast"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	talosModule = "github.com/siderolabs/talos"
	machinery   = talosModule + "/pkg/machinery"
)

// DeniedArguments are the arguments that Talos sets for a running etcd and does not allow in `extraArgs`.
func deniedArguments(version string) ([]Row, error) {
	module, err := download(talosModule, version)
	if err != nil {
		return nil, err
	}
	file, err := parse(filepath.Join(module.Dir, "internal/app/machined/pkg/system/services/etcd.go"))
	if err != nil {
		return nil, err
	}
	var found []Row
	ast.Inspect(file, func(node ast.Node) bool {
		assignment, is := node.(*ast.AssignStmt)
		if !is {
			return true
		}
		name, is := assignment.Lhs[0].(*ast.Ident)
		if list, isList := assignment.Rhs[0].(*ast.CompositeLit); is && isList && name.Name == "denyListArgs" {
			found = append(found, texts(list)...)
		}
		return true
	})
	slices.Sort(found)
	return slices.Compact(found), nil
}

// Compatibility is Talos's own table, one row for each minor version.
func compatibility(version string) ([]Row, error) {
	module, err := download(machinery, version)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for minor := 5; ; minor++ {
		path := filepath.Join(module.Dir, fmt.Sprintf("compatibility/talos1%d/talos1%[1]d.go", minor))
		file, err := parse(path)
		if err != nil {
			if len(rows) > 8 {
				return rows, nil
			}
			return nil, err
		}
		named := constants(file)
		cell := func(name string) string {
			parts := strings.Split(named[name], ".")
			check(strconv.Atoi(parts[1]))
			return parts[0] + "." + parts[1]
		}
		rows = append(rows, fmt.Sprintf("1.%d\t%s\t%s\t%s-%s", minor,
			cell("MinimumHostUpgradeVersion"), cell("MaximumHostDowngradeVersion"),
			cell("MinimumKubernetesVersion"), cell("MaximumKubernetesVersion")))
	}
}

//go:embed releases.tsv
var known []byte

// Releases contains the default etcd of each release: from the published module if the proxy has it (`module`), otherwise from
// releases.tsv, with its source.
func releases() ([]Row, error) {
	var rows []Row
	lines := bufio.NewScanner(bytes.NewReader(known))
	for lines.Scan() {
		row := lines.Text()
		if strings.HasPrefix(row, "#") {
			continue
		}
		cells := strings.Split(row, "\t")
		if cells[2] == "module" {
			module, err := download(machinery, cells[0])
			if err != nil {
				return nil, err
			}
			file, err := parse(filepath.Join(module.Dir, "constants/constants.go"))
			if err != nil {
				return nil, err
			}
			etcd := strings.TrimPrefix(constants(file)["DefaultEtcdVersion"], "v")
			if cells[1] != etcd {
				return nil, fmt.Errorf("releases.tsv: Talos %s has etcd %s, not %s", cells[0], etcd, cells[1])
			}
		}
		rows = append(rows, row)
	}
	return rows, lines.Err()
}
