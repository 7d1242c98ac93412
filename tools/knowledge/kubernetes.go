package main

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"go/ast"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed probe/*.go
var programs embed.FS

// Probe builds the programs of probe/ with one version of Kubernetes, and returns what they print, by subject.
func probe(cache, version string) (map[string][]Row, error) {
	folder := filepath.Join(cache, "kubernetes-"+version)
	hash := sha256.New()
	for _, source := range check(fs.Glob(programs, "probe/*")) {
		hash.Write(check(programs.ReadFile(source)))
	}
	said := filepath.Join(folder, fmt.Sprintf("said-%x", hash.Sum(nil))[:16])
	out, err := os.ReadFile(said)
	if err != nil {
		log.Printf("building for Kubernetes %s", version)
		if out, err = run(folder, version); err != nil {
			return nil, err
		}
		if err := os.WriteFile(said, out, 0o644); err != nil {
			return nil, err
		}
	}
	found := make(map[string][]Row)
	for line := range strings.Lines(string(out)) {
		subject, row, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		found[subject] = append(found[subject], row)
	}
	return found, nil
}

var staging = regexp.MustCompile(`(?m)^\s+(k8s\.io/[a-z-]+) => \./staging.*$`)

// Run builds the program in a separate module. Kubernetes replaces its staging modules with directories that a published module does not
// contain; they are published as v0.MINOR.PATCH, some not for each patch. Flags and feature gates are those of a minor version, so an
// earlier patch of such a module takes its place.
func run(folder, version string) ([]byte, error) {
	module, err := download("k8s.io/kubernetes", version)
	if err != nil {
		return nil, err
	}
	original, err := os.ReadFile(module.GoMod)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	fmt.Fprintf(&file, "module probe\n\nrequire k8s.io/kubernetes v%s\n", version)
	for _, line := range regexp.MustCompile(`(?m)^(go|godebug) .*$`).FindAll(original, -1) {
		fmt.Fprintf(&file, "%s\n", line)
	}
	for _, name := range staging.FindAllSubmatch(original, -1) {
		published, err := newest(string(name[1]), "0."+strings.TrimPrefix(version, "1."))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&file, "replace %s => %[1]s v%s\n", name[1], published)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for _, source := range check(fs.Glob(programs, "probe/*")) {
		copied := filepath.Join(folder, filepath.Base(source))
		if err := os.WriteFile(copied, check(programs.ReadFile(source)), 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), file.Bytes(), 0o644); err != nil {
		return nil, err
	}
	if err := command(folder, "mod", "tidy").Run(); err != nil {
		return nil, fmt.Errorf("go mod tidy: %w", err)
	}
	var said []byte
	for name, shown := range map[string][]string{
		"components": {"gates", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"},
		"proxy":      {"kube-proxy"},
	} {
		out, err := output(folder, name, shown)
		if err != nil {
			return nil, fmt.Errorf("%s with Kubernetes %s: %w", name, version, err)
		}
		said = append(said, out...)
	}
	return said, nil
}

// Output builds one of the programs and runs it for each component. Only the output matters, not the speed: unoptimized, it takes a third
// less time to compile.
func output(folder, name string, shown []string) (said []byte, err error) {
	binary := filepath.Join(folder, name)
	build := command(folder, "build", "-buildvcs=false", "-tags=probe", "-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w",
		"-o", binary, name+".go", "show.go")
	if err := build.Run(); err != nil {
		return nil, err
	}
	defer os.Remove(binary)
	for _, what := range shown {
		run := exec.Command(binary, what)
		run.Stderr = os.Stderr
		out, err := run.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		said = append(said, out...)
	}
	return said, nil
}

// APIs are the versions of each group in k8s.io/api, and the kinds whose removal is announced. The machine-readable part of Kubernetes'
// deprecation policy is a method of each type.
func apis(version string) ([]Row, error) {
	module, err := download("k8s.io/api", "0."+strings.TrimPrefix(version, "1."))
	if err != nil {
		return nil, err
	}
	registers, err := filepath.Glob(filepath.Join(module.Dir, "*", "v[0-9]*", "register.go"))
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, register := range registers {
		file, err := parse(register)
		if err != nil {
			return nil, err
		}
		folder := filepath.Dir(register)
		api := filepath.Base(folder)
		if group := constants(file)["GroupName"]; group != "" {
			api = group + "/" + api
		}
		rows = append(rows, api+"\t\t")
		path := filepath.Join(folder, "zz_generated.prerelease-lifecycle.go")
		if file, err = parse(path); os.IsNotExist(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		for _, declaration := range file.Decls {
			method, is := declaration.(*ast.FuncDecl)
			if !is || method.Name.Name != "APILifecycleRemoved" {
				continue
			}
			kind := method.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name
			numbers := method.Body.List[0].(*ast.ReturnStmt).Results
			major, minor := numbers[0].(*ast.BasicLit).Value, numbers[1].(*ast.BasicLit).Value
			// Lists are removed together with their elements' kind.
			if !strings.HasSuffix(kind, "List") {
				rows = append(rows, fmt.Sprintf("%s\t%s\t%s.%s", api, kind, major, minor))
			}
		}
	}
	slices.Sort(rows)
	return rows, nil
}
