package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build makes the program. The tests run with the race detector, which makes
// opening a store many times slower and sees nothing in a process that is
// killed: the bank that is killed is a plain build.
func build(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program and kills it for some seconds")
	}
	self := filepath.Join(t.TempDir(), "bank.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", self, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return self
}

func TestABankThatIsKilledAnywhereLosesNothing(t *testing.T) {
	self := build(t)
	for form := range plans {
		t.Run(form, func(t *testing.T) { killAnywhere(t, self, form) })
	}
}

func killAnywhere(t *testing.T, self, form string) {
	rounds, seed := 1, rand.Uint64()
	if os.Getenv("CLEAVE_SOAK") != "" {
		rounds = 30
	}
	b, err := crash(t.Context(), self, form, rounds, seed)
	if err != nil {
		t.Fatalf("go run ./examples/bank -form %s -rounds %d -seed %d makes the same choices: %v", form, rounds, seed, err)
	}
	var out strings.Builder
	if err := b.report(&out, seed); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	acknowledged := 0
	for _, s := range plans[form] {
		if b.lines[s].kills == 0 {
			t.Errorf("no kill %v", s)
		}
	}
	for s, l := range b.lines {
		acknowledged += l.acknowledged
		if victims := l.kills; form == asTransaction && step(s).stops() && (step(s).happened() && l.done < victims || !step(s).happened() && l.undone < victims) {
			t.Errorf("%v: %+v: fewer outcomes than kills", step(s), l)
		}
	}
	if acknowledged == 0 {
		t.Error("no transfer was acknowledged: the test shows nothing")
	}
	if want := rounds*len(plans[form]) - b.lines[opening].kills; b.audits < want {
		t.Errorf("%d audits, want at least %d", b.audits, want)
	}
}

func TestABankThatEndsByItselfIsAnError(t *testing.T) {
	self, err := exec.LookPath("go") // a program that does not know how to open a bank
	if err != nil {
		t.Fatal(err)
	}
	a := &auditor{self: self, form: asTransaction, dir: t.TempDir(), rng: rand.New(rand.NewPCG(1, 1)), book: newBook()}
	for _, s := range []step{debited, never} {
		if err := a.life(t.Context(), s); !errors.Is(err, errAlive) || !strings.Contains(err.Error(), "unknown command") {
			t.Errorf("no bank, to be killed %v: %v", s, err)
		}
	}
}

func TestABankThatCannotOpenSaysWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a-file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-dir", file}, {"-life", "x"}} {
		if err := runBank(t.Context(), args, strings.NewReader(""), io.Discard); err == nil || !strings.Contains(err.Error(), args[1]) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
