package importer

import (
	"context"
	"strconv"
	"testing"
)

// piece tells whether a command writes a piece of a hash.
func piece(words []string, key, field string) bool {
	return words[0] == "HSET" && words[1] == key && words[2] == field
}

// A later piece makes the hash anew if what came before it is not there.
func TestNoPieceOfAHashOutlivesIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		meet   func(target *fake, words []string) string
		hashes int64
		left   string
	}{
		{"comes with its lifetime in one step", func(target *fake, words []string) string {
			if words[0] == "HSET" && target.queue == nil {
				return "ERR outside of MULTI"
			}
			return ""
		}, 10, "f0f1f2f3"},
		{"expires between its pieces", func(target *fake, words []string) string {
			if piece(words, "k5", "f2") {
				target.expire("k5")
			}
			return ""
		}, 10, "f2f3"},
		{"its first piece is refused", func(_ *fake, words []string) string {
			if piece(words, "k5", "f0") {
				return "ERR too large: value of 70000000 bytes"
			}
			return ""
		}, 9, "f1f2f3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			source, target, o := fakes(t)
			source.pieces, source.pttl = 4, 3_600_000
			target.refuses(func(words []string) string { return c.meet(target, words) })
			r, err := Run(context.Background(), o)
			if err != nil || !r.Complete || r.Hashes != c.hashes || r.Failed != 10-c.hashes || r.Gone > 0 {
				t.Errorf("it ends with %v, %+v", err, r)
			}
			if target.rows["k5"] != c.left {
				t.Errorf("it has the fields %s", target.rows["k5"])
			}
			for k := range target.rows {
				if !target.dated[k] {
					t.Errorf("%s lives for ever", k)
				}
			}
		})
	}
}

func TestARefusalOfALaterPieceIsNoticed(t *testing.T) {
	for why, c := range map[string]struct{ times, hashes, failed int64 }{
		"ERR too large: value of 70000000 bytes": {times: 1, hashes: 9, failed: 1},
		"ERR group: overloaded":                  {times: 3, hashes: 10},
	} {
		source, target, o := fakes(t)
		source.pieces, source.pttl = 4, 3_600_000
		times := int64(0)
		target.refuses(func(words []string) string {
			if !piece(words, "k5", "f2") || times == c.times {
				return ""
			}
			times++
			return why
		})
		r, err := Run(context.Background(), o)
		if err != nil || !r.Complete || r.Hashes != c.hashes || r.Failed != c.failed || times != c.times {
			t.Errorf("%s, %d times: it ends with %v, %+v", why, times, err, r)
		}
		if whole := target.rows["k5"] == "f0f1f2f3"; whole != (c.failed == 0) || !target.dated["k5"] {
			t.Errorf("%s: it has the fields %s, and expires: %v", why, target.rows["k5"], target.dated["k5"])
		}
	}
}

// Redis says 0 of a key in its last millisecond.
func TestAKeyInItsLastMillisecondIsGone(t *testing.T) {
	for _, pieces := range []int{0, 4} {
		source, target, o := fakes(t)
		source.pieces, source.pttl = pieces, 0
		r, err := Run(context.Background(), o)
		if err != nil || !r.Complete || r.Gone != 10 || r.Strings+r.Hashes > 0 || len(target.rows) > 0 {
			t.Errorf("in %d pieces: it ends with %v, %d keys, %+v", pieces, err, len(target.rows), r)
		}
	}
}

// A thousand years are more than a Duration holds.
func TestLongLivesAreCopied(t *testing.T) {
	const ms = 1000 * 365 * 24 * 3_600_000
	for _, pieces := range []int{0, 4} {
		source, target, o := fakes(t)
		source.pieces, source.pttl = pieces, ms
		lives := 0
		target.refuses(func(words []string) string {
			if last := words[len(words)-1]; words[0] == "PEXPIRE" || words[0] == "SET" {
				if got, err := strconv.Atoi(last); err != nil || got > ms || got < ms-600_000 {
					t.Errorf("%q", words)
				}
				lives++
			}
			return ""
		})
		r, err := Run(context.Background(), o)
		if err != nil || !r.Complete || lives < 10 {
			t.Errorf("in %d pieces: it ends with %v, %d lives, %+v", pieces, err, lives, r)
		}
	}
}
