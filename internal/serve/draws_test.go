package serve

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// sayings are what a client may say next: requests, with semicolons between. What words in
// angle brackets stand for is drawn: see draws.word.
var sayings = listed(`
GET <k>|GET <k>|GET <k>|GET <k>|GET <h>|SET <k> <v>|SET <k> <v>|SET <k> <v>|SET <k> <v> NX|SET <k> <v> XX GET|SET <k> <v> KEEPTTL
SET <k> <v> EXAT 4102444800|SET <k> <v> EX 0|SET <k> <v> NO|GETSET <k> <v>|GETDEL <k>|GETEX <k> PERSIST|SETNX <k> <v>|INCR <k>|DECRBY <k> <n>
APPEND <k> <v>|STRLEN <k>|GETRANGE <k> 1 <n>|SETRANGE <k> 3 <v>|MGET <k> <k> <h>|MGET <t> <t>|MSET <k> <v> <k> <v>|MSET <t> <v> <t> <v>
MSETNX <k> <v> <t> <v>|DEL <k>|DEL <k> <k> <h>|EXISTS <k> <k> <k>|EXPIREAT <k> 4102444801|EXPIREAT <h> 1|EXPIRETIME <k>|PERSIST <k>|TYPE <k>|TYPE <h>
RENAME <k> <k>|RENAME <t> <t>|RENAME <h> <h>|COPY <k> <k>|COPY <h> <h> REPLACE|HSET <h> <g> <v> <g> <v>|HSET <h> <f> <n>|HGET <h> <f>
HMGET <h> <f> <f>|HGETALL <h>|HKEYS <h>|HLEN <h>|HDEL <h> <f> <f>|HINCRBY <h> <f> <n>|PING|ECHO <v>|GET|HSET <h> <f>|NOSUCH <k> <v>|SELECT <s>|SELECT <s>
SETNX <w> x; WATCH <w>|WATCH none|UNWATCH|MULTI|MULTI|MULTI; GET <k>; SET <k> <v>; GET <k>; EXEC|MULTI; SET <t> <v>; INCR <t>; HSET <h> f <n>; EXEC; GET <k>
SET <w> <big>; GET <w>; GET <w>; GET <w>; MGET <w> <w>; GET <w>; GET <w>; GET <w>; GET <w>; INCR <t>; GET <w>; DEL <w>`)

// outside are those that are not said in MULTI: there they are executed in the end, or show
// what others have done.
var outside = listed(`INCR shared|INCR shared|SELECT <own>; MSET <many>; FLUSHDB; EXISTS <k>|SELECT <own>; DBSIZE|RESET|EXEC|DISCARD`)

func listed(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '|' || r == '\n' })
}

// draws draws what one client says. Its keys are its own, but for the one that is shared:
// so its answers do not depend on others.
type draws struct {
	*rand.Rand
	id     int
	inside bool // of MULTI
}

// pipeline draws requests that are sent at once.
func (d *draws) pipeline() (requests [][]string) {
	for n := 1 + d.IntN(80); len(requests) < n; {
		saying, key := d.saying(), d.key("")
		for request := range strings.SplitSeq(saying, ";") {
			var words []string
			for _, w := range strings.Fields(strings.ReplaceAll(request, "<w>", key)) {
				if w == "<many>" {
					words = append(words, d.many()...)
				} else {
					words = append(words, d.word(w))
				}
			}
			d.inside = words[0] == "MULTI" || d.inside && !ends(words)
			requests = append(requests, words)
		}
	}
	return requests
}

// ends tells whether a request ends MULTI.
func ends(words []string) bool {
	return slices.Contains([]string{"EXEC", "DISCARD", "RESET"}, words[0])
}

func (d *draws) saying() string {
	i := d.IntN(len(sayings) + len(outside))
	switch {
	case i < len(sayings) && !(d.inside && d.IntN(8) == 0):
		return sayings[i]
	case !d.inside:
		return outside[i-len(sayings)]
	case d.IntN(6) == 0:
		return "DISCARD"
	}
	return "EXEC"
}

// word draws what a word stands for.
func (d *draws) word(w string) string {
	switch w {
	case "<k>", "<h>": // keys of strings and of hashes, or so they are meant
		if (w == "<h>") != (d.IntN(15) == 0) {
			return d.key("h")
		}
		return d.key("")
	case "<t>": // keys of one slot
		return fmt.Sprintf("{c%d}%d", d.id, d.IntN(6))
	case "<f>":
		return string("fghij"[d.IntN(5)])
	case "<g>": // not f: an index has it, and refuses large ones
		return string("ghij"[d.IntN(4)])
	case "<v>":
		return d.value()
	case "<big>": // at times more than waits for a client that does not read
		if d.IntN(8) == 0 {
			return strings.Repeat("big ", 50_000+d.IntN(30_000))
		}
		return d.value()
	case "<n>":
		return strconv.Itoa(d.IntN(2000) - 1000)
	case "<s>":
		return []string{"0", "9", d.word("<own>")}[d.IntN(3)]
	case "<own>": // the keyspace that no other client uses
		return strconv.Itoa(d.id + 1)
	}
	return w
}

func (d *draws) key(kind string) string {
	n := 6
	if d.IntN(2) == 0 {
		n = 150 // seldom again: it may be out of memory by then
	}
	return fmt.Sprintf("%sc%d:%d", kind, d.id, d.IntN(n))
}

func (d *draws) value() string {
	switch d.IntN(80) {
	case 0:
		return strings.Repeat("large ", d.IntN(50_000))
	case 1, 2, 3, 4, 5, 6, 7, 8:
		return strings.Repeat("x", d.IntN(2000))
	}
	return strconv.Itoa(d.IntN(1_000_000))
}

// many draws keys with values, at times more than are flushed one by one.
func (d *draws) many() (words []string) {
	n := 3
	if d.IntN(40) == 0 {
		n = fewKeys + 50
	}
	for i := range n {
		words = append(words, fmt.Sprintf("c%d:%d", d.id, i), "m")
	}
	return words
}
