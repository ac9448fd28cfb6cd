package partition

import (
	"errors"
	"strings"
	"testing"
)

func TestLabelsHaveOneForm(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"zone=eu":                  "zone=eu",
		"zone=eu,store=2":          "store=2,zone=eu",
		"a-b=2,a=1":                "a=1,a-b=2",
		"zone=eu,zone=us":          "is there twice",
		"zone":                     "write key=value",
		"zone=":                    "write key=value",
		"=eu":                      "write key=value",
		"zone=e u":                 "write key=value",
		"zone=eu,":                 "write key=value",
		"zone==eu":                 "write key=value",
		"zone=é":                   "write key=value",
		"zone=eu|us":               "a label is key=value",
		"zone!=eu":                 "a label is key=value",
		"k=" + longText("v", 1024): "use at most 1024",
	} {
		l, err := ParseLabels(in)
		checkParsed(t, in, l.String(), want, err)
		if again, err := ParseLabels(l.String()); err != nil || again != l {
			t.Errorf("%q becomes %q, %v", l, again, err)
		}
	}
}

func TestConstraintsHaveOneForm(t *testing.T) {
	for in, want := range map[string]string{
		"zone=us|eu|us,disk!=slow": "disk!=slow,zone=eu|us",
		"zone!=us,zone=eu|us":      "zone=eu|us,zone!=us",
		"zone=eu,zone=us":          "is there twice",
		"zone!=eu,zone!=us":        "is there twice",
		"zone=eu|":                 "write key=value",
		"zone!!=eu":                "write key=value",
		"!=eu":                     "write key=value",
	} {
		c, err := ParseConstraint(in)
		checkParsed(t, in, c.String(), want, err)
		if again, err := ParseConstraint(c.String()); err != nil || again != c {
			t.Errorf("%q becomes %q, %v", c, again, err)
		}
	}
}

func checkParsed(t *testing.T, in, got, want string, err error) {
	t.Helper()
	switch {
	case err == nil && got != want:
		t.Errorf("%.40q is %q, want %q", in, got, want)
	case err != nil && (!errors.Is(err, ErrLabels) || !strings.Contains(err.Error(), want) || got != ""):
		t.Errorf("%.40q: got %q, %v, want an ErrLabels with %q", in, got, err, want)
	}
}

func longText(s string, n int) string { return strings.Repeat(s, n) }

func TestAConstraintAllowsTheGroupsThatMeetAllItsTerms(t *testing.T) {
	for _, test := range []struct {
		constraint, labels string
		want               bool
	}{
		{"", "", true},
		{"", "zone=eu", true},
		{"zone=eu", "zone=eu", true},
		{"zone=eu", "zone=us", false},
		{"zone=eu", "", false},
		{"zone=eu", "zones=eu", false},
		{"zone=eu|us", "zone=us", true},
		{"zone=e|s", "zone=es", false},
		{"zone!=us", "zone=eu", true},
		{"zone!=us", "", true},
		{"zone!=us|eu", "zone=eu", false},
		{"zone=eu,disk!=slow", "zone=eu,disk=fast", true},
		{"zone=eu,disk!=slow", "zone=eu,disk=slow", false},
		{"zone=eu,disk!=slow", "zone=us,disk=fast", false},
		{"zone=eu|us,zone!=us", "zone=us", false},
	} {
		if got := mustConstraint(test.constraint).Allows(mustLabels(test.labels)); got != test.want {
			t.Errorf("%q allows %q: %v", test.constraint, test.labels, got)
		}
	}
}
