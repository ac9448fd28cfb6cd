package server

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/server/settings"
)

// What clients write after a command is read or refused, whatever it is.
func FuzzWordsAreReadOrRefused(f *testing.F) {
	for _, seed := range []string{
		"- + REV LIMIT 2 CURSOR 64", "[a (b PREFIX c WITHVALUES", "( + LIMIT -1", "COLUMNS a,b:int STORED 2 x y UNIQUE", "STORED 9 x", "COUNT 10 MATCH * TYPE hash",
		"normal 0 0 0 pubsub 32mb 8mb 60", "normal 1 2", "BCAST PREFIX a NOLOOP", "2 AUTH a b SETNAME c",
	} {
		f.Add([]byte(seed))
	}
	var c cursorCipher
	c.init(&Server{})
	f.Fuzz(func(t *testing.T, text []byte) {
		words := bytes.Fields(text)
		if len(words) >= 2 {
			if o, err := parseRange(words); err == nil && (o.Limit < 1 || o.Limit > maxPageKeys) {
				t.Errorf("%q: a page of %d keys", text, o.Limit)
			}
		}
		if err := parseIndexOptions(words, &cleave.IndexOptions{}); err == nil && len(words) < 2 {
			t.Errorf("%q makes an index", text)
		}
		if taken, rest, err := parseCounted(words); err == nil && len(taken)+len(rest)+1 != len(words) {
			t.Errorf("%q: %d and %d words", text, len(taken), len(rest))
		}
		if o, err := parseScan(words, "scan"); err == nil && (o.count < 1 || o.count > maxPageKeys) {
			t.Errorf("%q: %d keys", text, o.count)
		}
		limits, err := settings.ParseBufferLimits(strings.Join(strings.Fields(string(text)), " "), settings.BufferLimits{})
		if err == nil && (limits.Normal.Hard < 0 || limits.Pubsub.Soft < 0 || limits.Pubsub.SoftTime < 0) {
			t.Errorf("%q: %+v", text, limits)
		}
		_, _, _, _ = parseHello(words, 2)
		if place, err := c.open(text, "range"); err == nil && place != nil {
			t.Errorf("%q: the cursor is of %q", text, place)
		}
		if place, err := c.open([]byte(c.seal(text, "range")), "range"); err != nil || !bytes.Equal(place, text) {
			t.Errorf("%q is %q when it was sealed: %v", text, place, err)
		}
	})
}
