package main

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"strings"
)

// EtcdFlags are the flags that etcd defines in two files, and the flags that it ignores. A definition whose name cannot be read is an
// error, because the table would lack a flag.
func etcdFlags(version string) ([]Row, error) {
	module, err := download("go.etcd.io/etcd/server/v3", version)
	if err != nil {
		return nil, err
	}
	var found []Row
	for _, name := range []string{"etcdmain/config.go", "embed/config.go"} {
		file, err := parse(filepath.Join(module.Dir, name))
		if err != nil {
			return nil, err
		}
		named := constants(file)
		var unread error
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec:
				if list, is := lists(node)["ignored"]; is {
					found = append(found, texts(list)...)
				}
			case *ast.CallExpr:
				function, is := node.Fun.(*ast.SelectorExpr)
				if !is || len(node.Args) < 2 || !defines(function.Sel.Name) {
					break
				}
				if flag, is := text(node.Args[1]); is {
					found = append(found, flag)
				} else if constant, is := node.Args[1].(*ast.Ident); is && named[constant.Name] != "" {
					found = append(found, named[constant.Name])
				} else if !isIgnored(node.Args[0]) {
					unread = fmt.Errorf("%s of etcd %s: a flag with a name that is computed", name, version)
				}
			}
			return true
		})
		if unread != nil {
			return nil, unread
		}
	}
	return found, nil
}

func defines(method string) bool {
	return strings.HasSuffix(method, "Var") || method == "AddFlag"
}

// Lists are the composite literals of a declaration, by name.
func lists(spec *ast.ValueSpec) map[string]*ast.CompositeLit {
	found := make(map[string]*ast.CompositeLit)
	for at, value := range spec.Values {
		if list, is := value.(*ast.CompositeLit); is {
			found[spec.Names[at].Name] = list
		}
	}
	return found
}

// IsIgnored: each name of the list `ignored` becomes a `flags.IgnoredFlag`.
func isIgnored(value ast.Expr) bool {
	address, is := value.(*ast.UnaryExpr)
	if !is {
		return false
	}
	literal, is := address.X.(*ast.CompositeLit)
	if !is {
		return false
	}
	kind, is := literal.Type.(*ast.SelectorExpr)
	return is && kind.Sel.Name == "IgnoredFlag"
}
