package glob

import (
	"strings"
	"testing"
)

func TestANameFitsAPatternByTheRulesOfRedis(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "anything", true}, {"?", "", false},
		{"h?llo", "hello", true}, {"h?llo", "hllo", false}, {"h*llo", "hllo", true}, {"h*llo", "heeeello", true},
		{"h[ae]llo", "hallo", true}, {"h[ae]llo", "hillo", false}, {"h[^e]llo", "hallo", true}, {"h[^e]llo", "hello", false},
		{"h[a-b]llo", "hbllo", true}, {"h[b-a]llo", "hallo", true}, {"h[a-b]llo", "hcllo", false},
		{`h\*llo`, "h*llo", true}, {`h\*llo`, "hello", false}, {`[\]]`, "]", true}, {`[\-a]`, "-", true},
		{"[a", "a", true}, {"[^a", "b", true}, {"[", "a", false}, {"[^", "a", true}, {`a\`, `a\`, true},
		{"a*b*c", "axxbyyc", true}, {"a*b*c", "axxcyyb", false}, {"*a", "ba", true}, {"*a", "ab", false}, {"**", "x", true},
	} {
		if got := Match([]byte(c.pattern), []byte(c.name)); got != c.want {
			t.Errorf("%q fits %q: %v", c.name, c.pattern, got)
		}
	}
}

func TestAPatternOfManyStarsEnds(t *testing.T) {
	pattern, name := strings.Repeat("a*", 2000)+"b", strings.Repeat("a", 10_000)
	if Match([]byte(pattern), []byte(name)) {
		t.Error("it fits")
	}
}

// plain matches in the way that is easiest to believe, for patterns without brackets.
func plain(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return plain(pattern[1:], name) || name != "" && plain(pattern, name[1:])
	case name == "":
		return false
	}
	return (pattern[0] == '?' || pattern[0] == name[0]) && plain(pattern[1:], name[1:])
}

func FuzzMatch(f *testing.F) {
	f.Add("a*b?c", "axxbyc")
	f.Add("[a-", "b")
	f.Add(`\`, "")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 12 || len(name) > 16 {
			return
		}
		got := Match([]byte(pattern), []byte(name))
		if !strings.ContainsAny(pattern, `[\`) && got != plain(pattern, name) {
			t.Fatalf("%q fits %q: %v", name, pattern, got)
		}
		if lit, ok := Literal([]byte(pattern)); ok && !Match([]byte(pattern), lit) {
			t.Fatalf("%q does not fit %q", lit, pattern)
		}
	})
}
