// Command mutate puts the conditions of all mutants into the code, to edit them there, and takes them out
// again into patches. See package mutants.
//
//	go run ./internal/testkit/mutants/mutate plant [FILE or FOLDER]…
//	go run ./internal/testkit/mutants/mutate extract
//
// It is run in the top folder of the module.
package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/cleavekv/cleave/internal/testkit/mutants"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("mutate plant [FILE or FOLDER]… | mutate extract")
	}
	if _, err := os.Stat("go.mod"); err != nil {
		return fmt.Errorf("mutate runs in the top folder of the module: %w", err)
	}
	tree, err := mutants.OpenTree(".")
	if err != nil {
		return err
	}
	var report []string
	switch args[0] {
	case "plant":
		var only []string
		for _, a := range args[1:] {
			only = append(only, path.Clean(filepath.ToSlash(a)))
		}
		report, err = tree.Plant(only...)
	case "extract":
		report, err = tree.Extract()
	default:
		err = fmt.Errorf("mutate plant [FILE or FOLDER]… | mutate extract, not %q", args[0])
	}
	for _, line := range report {
		fmt.Println(line)
	}
	return err
}
