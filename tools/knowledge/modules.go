package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Module is the go command's description of a downloaded module.
type Module struct {
	Dir, GoMod, Error string
}

func download(path, version string) (Module, error) {
	out, err := command("", "mod", "download", "-json", path+"@v"+version).Output()
	var module Module
	if json.Unmarshal(out, &module) == nil && module.Error != "" {
		err = errors.New(module.Error)
	}
	if err != nil {
		return module, fmt.Errorf("%s@v%s: %w", path, version, err)
	}
	return module, nil
}

// Newest returns the version of a module, or the closest earlier patch of the same minor version if that one is not published.
func newest(path, version string) (string, error) {
	at := strings.LastIndex(version, ".") + 1
	patch, err := strconv.Atoi(version[at:])
	if err != nil {
		return "", err
	}
	_, missing := download(path, version)
	for ; patch >= 0; patch-- {
		published := version[:at] + strconv.Itoa(patch)
		if _, err := download(path, published); err == nil {
			return published, nil
		}
	}
	return "", missing
}

// Command prepares the go command in a directory, with only the module proxy: a missing module is not looked for elsewhere.
func command(folder string, arguments ...string) *exec.Cmd {
	cmd := exec.Command("go", arguments...)
	cmd.Dir = folder
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "GOPROXY="+proxy(), "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
	return cmd
}

func proxy() string {
	out := check(exec.Command("go", "env", "GOPROXY").Output())
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), ",")
	return first
}

func parse(path string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
}

// Text returns the value of a string literal.
func text(node ast.Expr) (string, bool) {
	literal, is := node.(*ast.BasicLit)
	if !is || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

// Texts returns the string keys, or the elements, of a composite literal.
func texts(literal *ast.CompositeLit) (found []string) {
	for _, element := range literal.Elts {
		if pair, is := element.(*ast.KeyValueExpr); is {
			element = pair.Key
		}
		if value, is := text(element); is {
			found = append(found, value)
		}
	}
	return found
}

// Constants returns the values of a file's top-level names that are string literals, or calls with one string literal.
func constants(file *ast.File) map[string]string {
	found := make(map[string]string)
	for _, declaration := range file.Decls {
		group, is := declaration.(*ast.GenDecl)
		if !is {
			continue
		}
		for _, spec := range group.Specs {
			values, is := spec.(*ast.ValueSpec)
			if !is {
				continue
			}
			for at, value := range values.Values {
				if call, is := value.(*ast.CallExpr); is && len(call.Args) == 1 {
					value = call.Args[0]
				}
				if value, is := text(value); is {
					found[values.Names[at].Name] = value
				}
			}
		}
	}
	return found
}
