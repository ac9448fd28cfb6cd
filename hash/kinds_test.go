package hash_test

import (
	"testing"

	"github.com/cleavekv/cleave/internal/testkit/typecheck"
)

func TestRoutingByAPerProcessHashDoesNotCompile(t *testing.T) {
	if err := typecheck.Check("testdata/kinds.go"); err != nil {
		t.Error(err)
	}
}
