package affinity_test

import (
	"testing"

	"github.com/cleavekv/cleave/internal/typecheck"
)

func TestAKeyOfOneShardDoesNotCompileOnAnother(t *testing.T) {
	if err := typecheck.Check("testdata/shards.go"); err != nil {
		t.Error(err)
	}
}

func TestADebitOnTheWrongShardDoesNotCompile(t *testing.T) {
	if err := typecheck.Check("testdata/bank.go"); err != nil {
		t.Error(err)
	}
}
