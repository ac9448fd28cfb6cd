package settings

import (
	"fmt"
	"maps"
	"testing"
)

// Every setting is of one class alone, and CONFIG GET has the value that is true.
func TestSettings_EachIsOfOneClass(t *testing.T) {
	classes := map[string]int{}
	count := func(values map[string]string) {
		for name := range values {
			classes[name]++
		}
	}
	count(honouredSettings)
	count(encodingSettings)
	count(immutableSettings(&Start{}))
	for _, g := range constantSettings {
		count(g.values)
	}
	for name := range firstSettings(&Start{}) {
		if classes[name] != 1 {
			t.Errorf("%s is of %d classes", name, classes[name])
		}
	}
}

func TestSettings_WithOneValueRefuseAnother(t *testing.T) {
	s := NewTable(&Start{Fsync: "always", Dir: "somewhere"})
	check := func(want string, words ...string) {
		t.Helper()
		if got := setWords(s, words...); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
	refused := func(name, reason string) string {
		return fmt.Sprintf("ERR CONFIG SET failed (possibly related to argument '%s') - %s", name, reason)
	}
	for _, g := range constantSettings {
		for name, value := range g.values {
			check("", name, value)
			other := map[string]string{"yes": "no", "no": "yes", "": "3600", "noeviction": "allkeys-lru"}[value]
			if other == "" {
				other = "77"
			}
			check(refused(name, g.reason), "timeout", "9", name, other)
		}
	}
	if got := s.Get("timeout"); got != "0" {
		t.Errorf("of settings that were refused together one is now %s", got)
	}
	check("", "maxmemory-policy", "NOEVICTION")
	check(refused("maxmemory-policy", "Cleave evicts nothing: noeviction is the only policy"), "maxmemory-policy", "allkeys-lru")
	check("", "appendfsync", "always", "dir", "somewhere")
	check(refused("appendfsync", "can't set immutable config: start the server with another --appendfsync"), "appendfsync", "no")
	check(refused("dir", "can't set immutable config: start the server with another --data"), "dir", "elsewhere")
	check(refused("slowlog-max-len", "argument must be between 0 and 100000 inclusive"), "slowlog-max-len", "100001")
}

// setWords changes settings, and returns why that is refused, empty if it is not.
func setWords(s *Table, words ...string) string {
	var args [][]byte
	for _, w := range words {
		args = append(args, []byte(w))
	}
	if err := s.Set(args); err != nil {
		return err.Error()
	}
	return ""
}

// The settings of Redis' encodings are accepted, since its test suite sets them.
func TestSettings_OfEncodingsAreAccepted(t *testing.T) {
	s := NewTable(&Start{})
	for name := range maps.Keys(encodingSettings) {
		if got := setWords(s, name, "7"); got != "" || s.Get(name) != "7" {
			t.Errorf("%s is %s: %s", name, s.Get(name), got)
		}
	}
}
