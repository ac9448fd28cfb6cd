package main

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
)

func main() {
	if os.Getenv(childEnv) != "" {
		runAsChild()
	}
	var o options
	flag.Uint64Var(&o.Seed, "seed", rand.Uint64(), "what to choose by")
	flag.IntVar(&o.Stores, "stores", 3, "how many stores")
	flag.IntVar(&o.Groups, "groups", 6, "how many groups at first")
	flag.StringVar(&o.Durability, "durability", "everysec", "always, everysec or no")
	flag.IntVar(&o.Lives, "lives", 20, "how many children to kill")
	flag.BoolVar(&o.Patient, "patient", true, "wait for all jobs in the end")
	flag.BoolVar(&o.Contended, "contended", false, "let clients get into each other's way instead of moving shards")
	flag.Parse()
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("seed", o.Seed)
	did, err := runKillTest(self, o)
	for _, what := range slices.Sorted(maps.Keys(did)) {
		fmt.Printf("%8d %s\n", did[what], what)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runAsChild is the main function of a child. It does not return.
func runAsChild() {
	if err := runChild(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
