package mover

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The tables of DESIGN.md say for each phase what is wanted. They are compared
// with what jobs want.
func TestTheDesignSaysWhatEachPhaseWants(t *testing.T) {
	text, err := os.ReadFile("DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	design := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) == 6 && !strings.HasPrefix(cells[1], "-") {
			design[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
		}
	}
	wanted := func(j Job) string {
		e := Resume(j)[0]
		text := reflect.TypeOf(e).Name()
		if e, ok := e.(Evaluate); ok {
			text += " " + reflect.TypeOf(e.Parts[0].Command).Elem().Name()
		}
		return text
	}
	for p, name := range phaseNames {
		if p.Final() {
			continue
		}
		if got := wanted(inPhase(p)); design[name] != got {
			t.Errorf("%s wants %s, the design says %q", name, got, design[name])
		}
	}
	for _, p := range []Phase{Planned, Deciding, Releasing, Publishing} {
		j := inPhase(p)
		j.Local = true
		if got := wanted(j); design["local "+p.String()] != got {
			t.Errorf("local %v wants %s, the design says %q", p, got, design["local "+p.String()])
		}
	}
}
