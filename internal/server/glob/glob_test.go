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

// matchPlain matches in the way that is easiest to believe, for patterns without brackets.
func matchPlain(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return matchPlain(pattern[1:], name) || name != "" && matchPlain(pattern, name[1:])
	case name == "":
		return false
	}
	return (pattern[0] == '?' || pattern[0] == name[0]) && matchPlain(pattern[1:], name[1:])
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
		if !strings.ContainsAny(pattern, `[\`) && got != matchPlain(pattern, name) {
			t.Fatalf("%q fits %q: %v", name, pattern, got)
		}
		if name != "" && got != redisMatch([]byte(pattern), []byte(name)) {
			t.Fatalf("%q fits %q: %v, and not by Redis, or the other way round", name, pattern, got)
		}
		if lit, ok := Literal([]byte(pattern)); ok && !Match([]byte(pattern), lit) {
			t.Fatalf("%q does not fit %q", lit, pattern)
		}
	})
}

// redisMatch is the matcher of Redis 7.0.15, stringmatchlen of util.c, step by step, without its limit on how deep
// it nests and without cases that do not count.
func redisMatch(p, s []byte) bool {
	for len(p) > 0 && len(s) > 0 {
		switch p[0] {
		case '*':
			for len(p) > 1 && p[1] == '*' {
				p = p[1:]
			}
			if len(p) == 1 {
				return true
			}
			for ; len(s) > 0; s = s[1:] {
				if redisMatch(p[1:], s) {
					return true
				}
			}
			return false
		case '?':
			s = s[1:]
		case '[':
			p = p[1:]
			not := len(p) > 0 && p[0] == '^'
			if not {
				p = p[1:]
			}
			match, closed := false, false
			for !closed {
				switch {
				case len(p) >= 2 && p[0] == '\\':
					p = p[1:]
					match = match || p[0] == s[0]
				case len(p) > 0 && p[0] == ']':
					closed = true
					continue
				case len(p) == 0:
					closed = true
					continue
				case len(p) >= 3 && p[1] == '-':
					lo, hi := min(p[0], p[2]), max(p[0], p[2])
					p = p[2:]
					match = match || lo <= s[0] && s[0] <= hi
				default:
					match = match || p[0] == s[0]
				}
				p = p[1:]
			}
			if match == not {
				return false
			}
			s = s[1:]
		default:
			if p[0] == '\\' && len(p) >= 2 {
				p = p[1:]
			}
			if p[0] != s[0] {
				return false
			}
			s = s[1:]
		}
		if len(p) > 0 {
			p = p[1:]
		}
		if len(s) == 0 {
			for len(p) > 0 && p[0] == '*' {
				p = p[1:]
			}
			break
		}
	}
	return len(p) == 0 && len(s) == 0
}

// The answers are those of Redis, for all short patterns and names over a few bytes that matter.
func TestMatch_OfShortPatterns_IsThatOfRedis(t *testing.T) {
	const bytes = "ab*?[]^-\\"
	var patterns, names []string
	var grow func(to *[]string, text, of string, left int)
	grow = func(to *[]string, text, of string, left int) {
		if *to = append(*to, text); left > 0 {
			for _, c := range of {
				grow(to, text+string(c), of, left-1)
			}
		}
	}
	grow(&patterns, "", bytes, 5)
	grow(&names, "", "a]-", 3)
	for _, p := range patterns {
		for _, n := range names {
			if got, want := Match([]byte(p), []byte(n)), redisMatch([]byte(p), []byte(n)); got != want && n != "" {
				t.Fatalf("%q fits %q: %v, and by Redis %v", n, p, got, want)
			}
		}
	}
}
