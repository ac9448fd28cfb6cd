// Command shardkeys writes the tables of docs/choosing-a-shard-key.md as CSV, and what programs ask of them, into the working directory, or into the one
// that is named:
//
//	go run ./examples/shardkeys data
package main

import (
	"errors"
	"log"
	"os"
	"path/filepath"

	"github.com/cleavekv/cleave/examples/shardkeys/dataset"
)

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := writeAll(dir, dataset.Rows); err != nil {
		log.Fatal(err)
	}
}

func writeAll(dir string, rows int) error {
	for _, s := range dataset.All() {
		file, err := os.Create(filepath.Join(dir, s.Name+".csv"))
		if err != nil {
			return err
		}
		asked := os.WriteFile(filepath.Join(dir, s.Name+"-queries.jsonl"), []byte(s.Queries), 0o644)
		if err := errors.Join(s.Write(file, rows), file.Close(), asked); err != nil {
			return err
		}
	}
	return nil
}
