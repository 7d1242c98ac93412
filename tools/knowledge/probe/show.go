//go:build probe

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Show prints the flags of a component, hidden ones included. Components take `_` for `-`.
func show(component string, flags *pflag.FlagSet) {
	flags.VisitAll(func(it *pflag.Flag) {
		fmt.Printf("flag\t%s\t%s\t%v\n", component, strings.ReplaceAll(it.Name, "_", "-"), it.Deprecated != "")
	})
}
