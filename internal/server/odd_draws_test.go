package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/server/redis"
)

// oddForms are the arguments of commands, by name: alternatives with | between them. What words in angle
// brackets stand for is drawn from oddWords; a * behind one stands for none to four of them. A command without
// a form has arguments that its arity and its keys ask for. Arguments of a form that ends with ! are not damaged.
var oddForms = parseForms(`
command: !
set: <k> <v> <setopt>* | <k> <v> <unit> <n> <setopt>* | <k> <v> <setopt>*
setex: <k> <n> <v>
psetex: <k> <n> <v>
getex: <k> <setopt>* | <k> <unit> <n> | <k> PERSIST <setopt>*
getrange: <k> <n> <n>
substr: <k> <n> <n>
setrange: <k> <off> <v>
lcs: <k> <k> <lcsopt>* | <k> <k> MINMATCHLEN <n> <lcsopt>*
incrby: <k> <n>
decrby: <k> <n>
incrbyfloat: <k> <n>
bitcount: <k> | <k> <n> <n> | <k> <n> <n> <range>
bitpos: <k> <bit> | <k> <bit> <n> | <k> <bit> <n> <n> | <k> <bit> <n> <n> <range>
bitfield: <k> <bf>*
bitfield_ro: <k> <bf>*
bitop: <op> <k> <k> <k>* | <op> <k> <k>
getbit: <k> <off>
setbit: <k> <off> <bit>
hset: <h> <f> <v> | <h> <f> <v> <f> <v> | <h> <f> <v> <f>
hmset: <h> <f> <v> | <h> <f> <v> <f> <v> | <h> <f> <v> <f>
hincrby: <h> <f> <n>
hincrbyfloat: <h> <f> <n>
hrandfield: <h> | <h> <n> | <h> <n> WITHVALUES | <h> <n> <v>
hscan: <h> 0 COUNT 1000 | <h> <n> <scanopt>* | <h> 0 <scanopt>*
scan: 0 COUNT 1000 | 0 COUNT 1000 <scanopt>* | <n> <scanopt>* | 0 <scanopt>*
keys: <p>
copy: <k> <k> | <h> <k> REPLACE | <k> <k> DB <db> <copyopt>* | <k> <k> <copyopt>*
expire: <k> <n> <expopt>*
pexpire: <k> <n> <expopt>*
expireat: <k> <n> <expopt>* | <k> 4102444800 <expopt>*
pexpireat: <k> <n> <expopt>* | <k> 4102444800000 <expopt>*
restore: <k> <n> <v> <restopt>*
dump: <k>
wait: 0 1! | x 1! | 1 1! | 99999999999999999999 0! | 0! | x y! | 0 <waitms>! | -1 0! | 1 -1! | -1 -1! | <waitn> 0! | 0 0 0!
watch: <k> <k>*
select: 0! | 16! | -1! | 99999999999999999999! | 2147483648! | 01! | !
ping: | <v> | <v> <v>
echo: <v> | <v> <v>
auth: <v>! | default <v>! | <v> <v> <v>!
hello: 2! | 3! | <n>! | ! | 2 SETNAME <v>! | 3 SETNAME! | 3 AUTH x! | 2 <v> <v>!
reset: ! | <v>!
client|setname: <v>
client|list: ! | TYPE <kind>! | ID <n>*! | ID! | <v>*!
client|kill: ID 99999999999! | ID <badid>! | TYPE <v>! | USER nosuch! | <v>! | ID 99999999999 SKIPME <v>! | ADDR! | ID 99999999999 <v> x! | LADDR x:1 ID 99999999999! | SKIPME!
client|reply: ON! | <v>! | !
client|tracking: OFF! | ON! | ON <trackopt>*! | <v>! | ON <trackopt>*! | OFF <trackopt>*!
client|caching: YES | NO | <v>
client|no-evict: ON | OFF | <v>
command|getkeys: <any>! | <any>! | <v>! | <v> <v>!
command|list: | FILTERBY ACLCAT read | FILTERBY PATTERN <p> | FILTERBY MODULE x | FILTERBY <v> <v> | FILTERBY
command|info: <v>* | get
command|docs: <v>* | get
config|get: <p> | maxmemory | timeout maxmemory <v>
config|set: nosuch <v>! | <v>! | timeout 0 <v>! | nosuch <v> <v>! | timeout <badtime>! | slowlog-log-slower-than <badtime>! | latency-monitor-threshold -1! | hash-max-listpack-entries 128 hash-max-listpack-entries 128!
slowlog|get: | <n> | <n> <n>
latency|history: <v>
latency|reset: <v>*
latency|histogram: | get
pubsub|channels: | <p> | <p> <p>
pubsub|shardchannels: | <p> | <p> <p>
pubsub|numsub: <c>*
pubsub|shardnumsub: <c>*
subscribe: <c> <c>*
psubscribe: <p> <p>*
ssubscribe: <c>
unsubscribe: <c>* | <c>
punsubscribe: <p>* | <p>
sunsubscribe: <c>* | <c>
publish: <c> <v> | <p> <v>
spublish: <c> <v>
flushall: | ASYNC | SYNC | <v> | ASYNC SYNC
flushdb: | ASYNC | SYNC | <v> | ASYNC SYNC
bgsave: <v>! | SCHEDULE <v>!
shutdown: <v>! | NOSAVE SAVE! | ABORT NOW! | NOSAVE <v>!
function|flush: ! | ASYNC! | SYNC! | <v>! | async x! | ASYNC SYNC!
function|list: ! | WITHCODE! | LIBRARYNAME x! | WITHCODE LIBRARYNAME x! | <v>! | LIBRARYNAME! | withcode <v>! | WITHCODE WITHCODE! | LIBRARYNAME a LIBRARYNAME b! | WITHCODE libraryname!
memory|usage: <k> | <k> SAMPLES <n> | <k> SAMPLES | <k> <v> <n>
acl|cat: | read | <v> | read read
acl|deluser: nosuch! | nosuch other!
acl|getuser: nosuch! | <v>!
acl|setuser: odd <rule>!
acl|dryrun: nosuch get x! | default get x! | default <v> x! | default get! | default <any>!
acl|genpass: | <n> | <n> <n>
acl|log: | <n>! | RESET! | <v>! | 1 1!
`)

// oddWords are what words in angle brackets stand for. Words are separated by blanks; see oddWord for escapes.
var oddWords = parseWords(`
k: a b c d h g missing '' {t}x \0k
h: h g h g h a missing
f: f g '' 1 field \0
c: chan other a*
p: * h* ? [a-c] [^a] [a [ \\ \\* [c-a] '' a?c *\0* h[ *a*b* [\\]] [a-
n: 0 1 -1 2 5 100 -100 '' x 01 +1 -0 00 _1 1_ 1. .5 1.5 -1.5 1e3 1E3 0x10 0X1p4 9223372036854775807 -9223372036854775808 9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616 -18446744073709551616 99999999999999999999999 2147483647 2147483648 -2147483649 4294967296 nan NaN -nan inf +inf -inf Infinity infinit 1e308 1e309 -1e400 1e5000 1e-400 1e-5000 3.0e-5 5.0e3 1\0 1\r\n * 9999999999999999 9223372036854775 -9223372036854775 0.1 1e17 123456789.123456789 1e 1e+ --1 ++1 1p5
v: '' 0 1 -1 10 abc xyz 3.5 nan inf 1e400 9223372036854775807 -9223372036854775808 9223372036854775808 01 \xff\x00\x0f hello\_world a\r\nb %s %d ababababababababab \' " long
bit: 0 1 0 1 2 -1 x '' 01 1.0 4294967296
off: 0 1 7 8 100 -1 x '' 01 1.5 9223372036854775807 -9223372036854775808 99999999999 4294967296 18446744073709551615
unit: EX px EXAT PXAT ex
setopt: NX xx GET KEEPTTL PERSIST EX PX EXAT PXAT 100000 -1 0 x ''
expopt: NX XX GT LT nx foo ''
copyopt: REPLACE replace DB 0 foo
restopt: REPLACE ABSTTL IDLETIME FREQ 5 -1 foo 256 255 0 x
lcsopt: LEN IDX WITHMATCHLEN MINMATCHLEN 1 -1 x len
range: BIT BYTE byte bits ''
op: AND or XOR NOT not NAND ''
scanopt: MATCH COUNT TYPE string hash nosuch * h* 0 1 -1 10 x 99999999999999999999 9223372036854775807 count
db: 0 16 -1 x '' 99999999999 2147483648 99999999999999999999
bf: GET SET INCRBY OVERFLOW WRAP sat FAIL u8 i8 u63 i64 u64 u0 i0 i65 u x #0 #1 #-1 #x # 0 8 -1 100 1 -5 255 x ''
kind: normal pubsub master replica nosuch '' slave
waitms: 1 -1 01 +1 1.0 '' x -9223372036854775808 9223372036854775808
waitn: 0 -1 01 +1 1.0 '' x 9223372036854775808
badtime: -2 01 +1 1.5 '' x 99999999999999999999 1q
badid: 0 -1 x '' 1.5 99999999999999999999
trackopt: REDIRECT 0 99999 x PREFIX a b ab BCAST OPTIN OPTOUT -1 foo
rule: on off reset ~* %R~a +get -get +nosuch +@nosuch -@all +@read allkeys resetkeys >pw <nopw #x #ff !x nopass resetpass resetchannels &* allchannels foo +config|get -config|nosuch clearselectors
`)

// oddWord is a word with its escapes read.
var oddWord = strings.NewReplacer(`''`, "", `\0`, "\x00", `\xff`, "\xff", `\x00`, "\x00", `\x0f`, "\x0f", `\r`, "\r", `\n`, "\n", `\_`, " ", `\\`, `\`, `\'`, "'")

func parseForms(text string) map[string][]string {
	forms := map[string][]string{}
	for line := range strings.Lines(text) {
		if name, alternatives, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			for form := range strings.SplitSeq(alternatives, "|") {
				forms[name] = append(forms[name], strings.TrimSpace(form))
			}
		}
	}
	return forms
}

func parseWords(text string) map[string][]string {
	words := map[string][]string{}
	for line := range strings.Lines(text) {
		if name, all, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			for _, w := range strings.Fields(all) {
				words[name] = append(words[name], oddWord.Replace(w))
			}
		}
	}
	words["v"][slices.Index(words["v"], "long")] = strings.Repeat("long ", 40)
	return words
}

// notCompared are commands that are not sent, with the reason.
var notCompared = map[string]string{
	"quit": "closes the connection", "exec": "is drawn with MULTI", "multi": "is drawn with EXEC",
	"client|setinfo": "Redis 7.0 does not have it", "client|no-touch": "Redis 7.0 does not have it",
	"readonly": "Redis refuses it outside of a cluster", "readwrite": "Redis refuses it outside of a cluster", "asking": "Redis refuses it outside of a cluster",
	"config|rewrite": "is refused, see docs/redis.md", "acl|load": "Redis needs a file of users", "acl|save": "Redis needs a file of users",
	"cluster|myid": "Redis is no cluster",
}

// oddDraws draws odd requests of one connection.
type oddDraws struct {
	*rand.Rand
	specs, inMulti []*redis.Spec
	multi          bool
	listening      bool // it may have subscriptions
	time           int
}

func newOddDraws(rng *rand.Rand) *oddDraws {
	d := &oddDraws{Rand: rng}
	for _, s := range redis.AllSpecs() {
		if len(s.Subcommands) > 0 && s.Name != "command" || notCompared[s.Name] != "" || strings.HasPrefix(s.Name, "cleave.") || strings.HasPrefix(s.Name, "cluster|") || strings.HasPrefix(s.Name, "hotkeys") { // Redis has these since 8.6
			continue
		}
		d.specs = append(d.specs, s)
		if s.RunsOnView() {
			d.specs = append(d.specs, s, s) // those about keys come more often
			d.inMulti = append(d.inMulti, s)
		}
	}
	return d
}

// request draws the next request.
func (d *oddDraws) request() []string {
	if d.multi {
		switch d.IntN(12) {
		case 0, 1:
			d.multi = false
			return []string{"EXEC"}
		case 2:
			if d.IntN(3) == 0 {
				d.multi = false
				return []string{"DISCARD"}
			}
			return d.oneOf([]string{"WATCH", "a"}, []string{"MULTI"}, []string{"EXEC", "x"}, []string{"MULTI", "x"}, []string{"DISCARD", "x"}, []string{"WATCH"})
		case 3: // of a wrong arity, or it would answer in the end
			return d.wrongArity(d.specs[d.IntN(len(d.specs))])
		}
		return d.of(d.inMulti[d.IntN(len(d.inMulti))])
	}
	if d.listening && d.IntN(4) == 0 { // else most answers are that it listens
		d.listening = false
		return []string{"RESET"}
	}
	switch d.IntN(60) {
	case 0:
		d.multi = true
		return []string{"MULTI"}
	case 1:
		return d.oneOf([]string{"EXEC"}, []string{"DISCARD"}, []string{"EXEC", "x"}, []string{"MULTI", "x"}, []string{"UNWATCH", "x"})
	case 2, 3, 4: // keys are there more often than not
		return d.oneOf([]string{"SET", "a", "5"}, []string{"SET", "b", "hello world"}, []string{"HSET", "h", "f", "1", "g", "x", "field", "1.5"}, []string{"HSET", "g", "f", "10"}, []string{"SET", "c", "\xff\x00\x0f", "EX", "100000"})
	case 5:
		return []string{"RESET"}
	}
	s := d.specs[d.IntN(len(d.specs))]
	d.listening = d.listening || strings.HasSuffix(s.Name, "subscribe")
	return d.of(s)
}

func (d *oddDraws) oneOf(requests ...[]string) []string { return requests[d.IntN(len(requests))] }

// nameOf is the name of a command as it is sent.
func (d *oddDraws) nameOf(s *redis.Spec) []string {
	name := s.Name
	if d.IntN(2) == 0 {
		name = strings.ToUpper(name)
	}
	return strings.Split(name, "|")
}

// wrongArity draws a request with too few or too many words.
func (d *oddDraws) wrongArity(s *redis.Spec) []string {
	words, n := d.nameOf(s), s.Arity
	switch least := len(words); {
	case n < 0 && -n <= least, n == least && d.IntN(2) == 0, n > least && d.IntN(2) == 0:
		if n < 0 { // it cannot be wrong
			return []string{"GET"}
		}
		n++
	default:
		n = max(n, -n) - 1
	}
	for len(words) < n {
		words = append(words, d.draw("v"))
	}
	return words
}

// of draws a request of a command.
func (d *oddDraws) of(s *redis.Spec) []string {
	words := d.nameOf(s)
	forms := oddForms[s.Name]
	if len(forms) == 0 {
		return d.damage(s, d.plain(s, words))
	}
	form, whole := strings.CutSuffix(forms[d.IntN(len(forms))], "!")
	for _, w := range strings.Fields(form) {
		w, many := strings.CutSuffix(w, "*")
		for n := d.IntN(5); ; n-- {
			if many && n <= 0 {
				break
			}
			words = append(words, d.expand(w)...)
			if !many {
				break
			}
		}
	}
	if whole {
		return words
	}
	return d.damage(s, words)
}

// plain appends the arguments of a command that has no form.
func (d *oddDraws) plain(s *redis.Spec, words []string) []string {
	n := s.Arity
	if n < 0 {
		n = -n + d.IntN(3)
	}
	for len(words) < n {
		i := len(words)
		switch {
		case s.Keys.First > 0 && i >= s.Keys.First && (s.Keys.Last < 0 || i <= s.Keys.Last) && (i-s.Keys.First)%s.Keys.Step == 0:
			if s.ACL&redis.HashType != 0 {
				words = append(words, d.draw("h"))
			} else {
				words = append(words, d.draw("k"))
			}
		case s.ACL&redis.HashType != 0 && d.IntN(3) > 0:
			words = append(words, d.draw("f"))
		default:
			words = append(words, d.draw("v"))
		}
	}
	return words
}

func (d *oddDraws) draw(kind string) string { return oddWords[kind][d.IntN(len(oddWords[kind]))] }

// expand draws what a word of a form stands for.
func (d *oddDraws) expand(w string) []string {
	switch {
	case w == "<any>":
		s := d.specs[d.IntN(len(d.specs))]
		return d.of(s)
	case w == "<bf>" && d.IntN(3) > 0: // mostly what may follow one another
		return d.oneOf([]string{"GET", d.draw("bf"), d.draw("off")}, []string{"SET", d.oneOf([]string{"u8"}, []string{"i8"}, []string{"i64"})[0], d.draw("off"), d.draw("n")},
			[]string{"OVERFLOW", d.draw("bf")}, []string{"INCRBY", d.draw("bf"), d.draw("off"), d.draw("n")}, []string{"GET", "u8", d.draw("off")})
	case strings.HasPrefix(w, "<"):
		return []string{d.draw(strings.Trim(w, "<>"))}
	}
	return []string{w}
}

// damage makes a request odd at times: a word is missing, is another one, comes twice or elsewhere.
func (d *oddDraws) damage(s *redis.Spec, words []string) []string {
	first := 1 + strings.Count(s.Name, "|")
	if n := len(words) - first; n > 0 {
		at := first + d.IntN(n)
		switch d.IntN(24) {
		case 0:
			words = slices.Delete(words, at, at+1)
		case 1:
			words = slices.Insert(words, at, words[at])
		case 2:
			words[at] = d.draw([]string{"n", "v", "k"}[d.IntN(3)])
		case 3:
			other := first + d.IntN(n)
			words[at], words[other] = words[other], words[at]
		case 4:
			words = append(words, d.draw("v"))
		}
	} else if d.IntN(8) == 0 {
		words = append(words, d.draw("v"))
	}
	return d.tame(s, words)
}

// tame replaces numbers that would take too much memory, or end while it is looked at.
func (d *oddDraws) tame(s *redis.Spec, words []string) []string {
	d.time++ // GT and LT of equal times depend on the clocks
	from, to, instead := 0.0, 0.0, strconv.Itoa(100_000+d.time)
	switch name := s.Name; {
	case name == "setbit" || name == "getbit" || name == "setrange" || name == "bitfield" || name == "bitfield_ro":
		from, to, instead = 1e6, 1<<33, "100" // a value is at most 64 MiB here
	case name == "set" || name == "getex" || name == "setex" || name == "psetex" || name == "expire" || name == "pexpire" || name == "restore":
		from, to = 1, 100_000
	case name == "copy": // Redis has these databases
		from, to, instead = 1, 16, "16"
	case name == "hrandfield": // Redis would return so many
		from, to, instead = -1<<62, -1000, "-9"
	}
	if strings.Contains(s.Name, "pub") || strings.Contains(s.Name, "subscribe") {
		for i, w := range words {
			if w == "" {
				words[i] = "name" // in Redis no pattern fits an empty name
			}
		}
	}
	for i := 2; i < len(words) && from != to; i++ {
		if n, err := strconv.ParseFloat(strings.TrimPrefix(words[i], "#"), 64); err == nil && n >= from && n < to && !(s.Name == "set" && i == 2) {
			words[i] = instead
		}
	}
	return words
}

func printRequest(words []string) string {
	text := ""
	for _, w := range words {
		text += fmt.Sprintf("%.60q ", w)
	}
	return text
}
