package server

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// oddBatch is how many requests are sent at once, oddRounds how many batches a short run has, and oddContext how
// many requests before one that differs are printed.
const (
	oddBatch   = 40
	oddRounds  = 150
	oddContext = 15
)

// Each command that is served answers odd requests as Redis does: a wrong number of arguments, numbers of all
// forms and sizes, options that are repeated, in conflict or in another order, keys of another type.
func TestOddRequests_OfEveryCommand_AreAnsweredAsByRedis(t *testing.T) {
	rounds := oddRounds
	if os.Getenv("CLEAVE_SOAK") != "" {
		rounds *= 60
	}
	seed := seedOf(t)
	l := startServer(t, shapes[1], Options{})
	redis := dialRedis(t)
	o := &oddTwin{draws: newOddDraws(rand.New(rand.NewPCG(seed, 0))), classes: map[string]*oddClass{}}
	for round := range rounds {
		if round%20 == 0 {
			o.connect(l.dial(), redis())
		}
		if err := o.step(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	var counts tally.Counts
	counts.Add("replies", o.replies)
	counts.Add("errors", o.errors)
	counts.Add("differences", o.different)
	counts.Log(t, "replies", "errors")
	names := slices.SortedFunc(maps.Keys(o.classes), func(a, b string) int {
		return cmp.Or(cmp.Compare(o.classes[b].n, o.classes[a].n), cmp.Compare(a, b))
	})
	if o.different > 0 && rounds > oddRounds {
		t.Log("a long run has to be replayed as one: set CLEAVE_SOAK=1 beside the seed")
	}
	for _, name := range names {
		t.Errorf("%d times %s\n%s", o.classes[name].n, name, o.classes[name].example)
	}
}

// oddTwin sends odd requests to both servers.
type oddTwin struct {
	draws                      *oddDraws
	ours, theirs               *testConn
	queued                     [][]string
	markers                    int
	replies, errors, different int
	classes                    map[string]*oddClass
}

// oddClass is a way in which answers differ.
type oddClass struct {
	n       int
	example string
}

func (o *oddTwin) connect(ours, theirs *testConn) {
	if o.ours != nil {
		o.ours.Close()
		o.theirs.Close()
	}
	o.ours, o.theirs, o.draws.multi, o.queued = ours, theirs, false, nil
}

// step sends a batch, and compares the answers up to the first that differs.
func (o *oddTwin) step() error {
	requests := make([][]string, 0, oddBatch)
	for range oddBatch {
		requests = append(requests, o.draws.request())
	}
	markers := make([]string, len(requests))
	for i := range requests {
		markers[i] = fmt.Sprintf("end-%d", o.markers)
		o.markers++
	}
	theirs, err := exchangeMarked(o.theirs, requests, markers)
	if err != nil {
		return fmt.Errorf("redis: %w after %v", err, printRequests(requests))
	}
	ours, err := exchangeMarked(o.ours, requests, markers)
	if err != nil {
		return fmt.Errorf("%w after %v", err, printRequests(requests))
	}
	for i, words := range requests {
		o.replies++
		if strings.HasPrefix(theirs[i][0].text, "-") {
			o.errors++
		}
		if class := o.compare(words, ours[i], theirs[i]); class != "" {
			o.different++
			c := o.classes[class]
			if c == nil {
				c = &oddClass{example: fmt.Sprintf("  %s\n  redis: %.300q\n  ours:  %.300q\n  after %s", printRequest(words), join(theirs[i]), join(ours[i]), printRequests(requests[max(0, i-oddContext):i]))}
				o.classes[class] = c
			}
			c.n++
			o.restart()
			return nil
		}
		if strings.EqualFold(words[0], "EXEC") && len(ours[i][0].parts) != len(theirs[i][0].parts) {
			o.restart() // it was executed by one of them: see compare
			return nil
		}
		switch name := strings.ToUpper(words[0]); {
		case theirs[i][0].text == "+QUEUED\r\n":
			o.queued = append(o.queued, words)
		case name == "EXEC" || name == "DISCARD" || name == "RESET":
			if text := theirs[i][0].text; strings.HasPrefix(text, "-EXECABORT") || !strings.Contains(text, "wrong number") {
				o.queued = nil
			}
		}
	}
	return nil
}

// restart makes both servers empty.
func (o *oddTwin) restart() {
	o.draws.multi, o.queued = false, nil
	for _, c := range []*testConn{o.ours, o.theirs} {
		for _, request := range []string{"RESET", "FLUSHALL"} {
			c.send(request)
			for {
				if a, err := readRawReply(c.in); err != nil || a.text[0] != '>' {
					break
				}
			}
		}
	}
}

func join(answers []rawReply) string {
	text := ""
	for _, a := range answers {
		text += a.String()
	}
	return text
}

func printRequests(requests [][]string) string {
	text := ""
	for _, words := range requests {
		text += "\n        " + printRequest(words)
	}
	return text
}

// severalAnswers reports whether a request may have several answers.
func severalAnswers(words []string) bool {
	return strings.HasSuffix(strings.ToLower(words[0]), "subscribe")
}

// exchangeMarked sends requests, each followed by a PING that marks the end of its answers if it may have several.
func exchangeMarked(c *testConn, requests [][]string, markers []string) (all [][]rawReply, err error) {
	var text []byte
	for i, words := range requests {
		text = append(text, encodeRequest(words...)...)
		if severalAnswers(words) {
			text = append(text, encodeRequest("PING", markers[i])...)
		}
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(text)
		sent <- err
	}()
	for i, words := range requests {
		var answers []rawReply
		for {
			a, err := readRawReply(c.in)
			if err != nil {
				return nil, fmt.Errorf("answer %d to %s: %w", i, printRequest(words), err)
			}
			if a.text[0] == '>' && len(a.parts) > 0 && (strings.Contains(a.parts[0].text, "message\r\n") || strings.Contains(a.parts[0].text, "invalidate")) {
				continue // its place among the answers is not defined
			}
			if severalAnswers(words) {
				if strings.Contains(a.String(), markers[i]+"\r\n") || len(answers) > 0 && a.text == "+QUEUED\r\n" {
					break
				}
				answers = append(answers, a)
				continue
			}
			answers = append(answers, a)
			break
		}
		if len(answers) == 0 {
			return nil, fmt.Errorf("no answer to %s", printRequest(words))
		}
		all = append(all, answers)
	}
	return all, <-sent
}

// compare returns the class of a difference, "" for none.
func (o *oddTwin) compare(words []string, ours, theirs []rawReply) string {
	name := strings.ToLower(words[0])
	if len(words) > 1 && oddFamilies[name] {
		name += "|" + strings.ToLower(words[1])
	}
	var got, want string
	if name == "exec" && len(ours) == 1 && len(theirs) == 1 && len(ours[0].parts) == len(o.queued) && len(theirs[0].parts) == len(o.queued) {
		for i, words := range o.queued {
			if class := o.compare(words, ours[0].parts[i:i+1], theirs[0].parts[i:i+1]); class != "" {
				return "in EXEC: " + class
			}
		}
		return ""
	}
	if name == "exec" && (strings.HasPrefix(theirs[0].text, "_") || strings.HasPrefix(theirs[0].text, "*-1")) {
		return "" // a watched key that was made and deleted again counts as unchanged here
	}
	if severalAnswers(words) && len(words) == 1 { // names come in any order
		slices.SortFunc(ours, byName)
		slices.SortFunc(theirs, byName)
		if len(ours) == len(theirs) {
			return ""
		}
	}
	got, want = alikeOdd(name, words, ours), alikeOdd(name, words, theirs)
	if got == want || alikeNumbers(name, got, want) {
		return ""
	}
	if strings.HasPrefix(got, "-ERR Can't execute") && strings.HasPrefix(want, "-ERR Can't execute") {
		name = "while it listens"
	}
	return fmt.Sprintf("%s: redis %s, ours %s", name, kindOf(want), kindOf(got))
}

var oddFamilies = map[string]bool{"acl": true, "client": true, "command": true, "config": true, "function": true, "latency": true, "memory": true, "module": true, "object": true, "pubsub": true, "slowlog": true, "cluster": true}

func byName(a, b rawReply) int {
	if len(a.parts) < 2 || len(b.parts) < 2 {
		return cmp.Compare(a.text, b.text)
	}
	return cmp.Compare(a.parts[1].text, b.parts[1].text)
}

// clientKind is an answer without what a request has brought into it.
func kindOf(text string) string {
	if strings.HasPrefix(text, "-ERR Can't execute") {
		return "an error of one that listens"
	}
	if strings.HasPrefix(text, "-") {
		head, _, _ := strings.Cut(strings.TrimSpace(text), "'")
		return fmt.Sprintf("%.50q", strings.ReplaceAll(head, "\\", ""))
	}
	return fmt.Sprintf("%.1q…", text)
}

// shapeOnly are commands whose answers differ by chance or by design; errors are compared.
var shapeOnly = map[string]bool{
	"dbsize":    true, // Redis counts keys that have expired and were not removed
	"randomkey": true, "dump": true, "object|encoding": true, "object|refcount": true, "object|idletime": true, "memory|usage": true, "memory|stats": true, "memory|doctor": true,
	"info": true, "time": true, "lastsave": true, "lolwut": true, "client|id": true, "client|list": true, "client|info": true, "client|trackinginfo": true, "hello": true,
	"command": true, "command|count": true, "command|info": true, "command|docs": true, "command|list": true, "config|get": true, "module|list": true,
	"slowlog|get": true, "slowlog|len": true, "latency|latest": true, "latency|history": true, "latency|histogram": true, "latency|doctor": true, "latency|reset": true,
	"acl|cat": true, "acl|getuser": true, "acl|list": true, "acl|genpass": true, "acl|log": true,
	"acl|help": true, "client|help": true, "command|help": true, "config|help": true, "latency|help": true, "memory|help": true, "module|help": true, "object|help": true, "pubsub|help": true, "slowlog|help": true,
}

// alikeOdd is an answer without what may differ.
func alikeOdd(name string, words []string, answers []rawReply) string {
	a := answers[0]
	if len(answers) > 1 || a.text == "" || a.text[0] == '-' || a.text == "+QUEUED\r\n" {
		return join(answers)
	}
	width := 1
	switch {
	case shapeOnly[name]:
		if a.text[0] == '=' {
			return "$"
		}
		return a.text[:1]
	case name == "hgetall":
		width = 2
	case name == "hrandfield":
		n := 0
		if len(words) > 2 {
			n, _ = strconv.Atoi(words[2])
		}
		if n < 4 {
			return a.text[:1] // by chance
		}
	case name == "scan" || name == "hscan":
		if len(a.parts) != 2 || !wholeScan(words) {
			return a.text
		}
		if a = a.parts[1]; name == "hscan" {
			width = 2
		}
	case name != "hkeys" && name != "hvals" && name != "keys" && !strings.HasPrefix(name, "pubsub|"):
		return a.String()
	}
	rows := slices.Collect(slices.Chunk(a.parts, width))
	slices.SortFunc(rows, func(x, y []rawReply) int { return bytes.Compare([]byte(join(x)), []byte(join(y))) })
	return rawReply{a.text, slices.Concat(rows...)}.String()
}

// wholeScan reports whether a SCAN or HSCAN returns everything: there is less than it asks for.
func wholeScan(words []string) bool {
	cursor := words[1]
	if strings.EqualFold(words[0], "HSCAN") {
		cursor = words[2]
	}
	counts := strings.Count(strings.ToUpper(strings.Join(words, " ")), "COUNT")
	return cursor == "0" && counts == 1 && slices.Contains(words, "1000")
}

// alikeNumbers reports whether times are about the same.
func alikeNumbers(name, a, b string) bool {
	if name != "pttl" && name != "pexpiretime" && name != "ttl" && name != "expiretime" || a[0] != ':' || b[0] != ':' {
		return false
	}
	x, _ := strconv.ParseInt(strings.TrimSpace(a[1:]), 10, 64)
	y, _ := strconv.ParseInt(strings.TrimSpace(b[1:]), 10, 64)
	return x > 0 && y > 0 && max(x-y, y-x) < 10_000
}

// Each request here was once answered in another way than by Redis.
func TestOddRequests_ThatOnceDiffered_AreAnsweredAsByRedis(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	for _, script := range oddScripts {
		t.Run(script[0], func(t *testing.T) {
			redis, ours := dialRedis(t)(), l.dial()
			ours.runScript("FLUSHALL -> OK")
			for _, line := range script[1:] {
				if want, got := redis.ask(line), ours.ask(line); got != want {
					t.Errorf("%s: %s, and that of Redis is %s", line, got, want)
				}
			}
		})
	}
}

// RESP2 has two forms of null, and Redis writes that of a text for an unknown command.
func TestCommandInfo_OfAnUnknownName_IsTheNullOfRedis(t *testing.T) {
	redis, ours := dialRedis(t)(), startServer(t, shapes[1], Options{}).dial()
	var answers [2]string
	for i, c := range []*testConn{redis, ours} {
		c.sendWords("COMMAND", "INFO", "nosuch")
		a, err := readRawReply(c.in)
		if err != nil {
			t.Fatal(err)
		}
		answers[i] = a.String()
	}
	if answers[1] != answers[0] {
		t.Errorf("%q, and that of Redis is %q", answers[1], answers[0])
	}
}

// oddScripts are requests whose answers are compared, each with a name in front.
var oddScripts = [][]string{
	{"cursors", "SCAN -1", "SCAN +0", "SCAN 18446744073709551615", "SCAN 18446744073709551616", "SCAN -18446744073709551616", "SCAN x", "SCAN 1x", "SCAN 0 COUNT 0", "SCAN 0 COUNT +5",
		"HSET h f 1", "HSCAN h -1", "HSCAN h 99999999999999999999", "HSCAN h 0 COUNT 0", "HSCAN missing 0 COUNT 0", "HSCAN missing 0 foo", "HSCAN missing x", "SET a 1", "HSCAN a 0 foo", "HSCAN h 0 TYPE string"},
	{"subcommands", "PUBSUB CHANNELS a b", "PUBSUB SHARDCHANNELS a b", "PUBSUB NUMSUB a a", "SLOWLOG GET 1 2", "SLOWLOG GET -2", "SLOWLOG GET 01", "ACL CAT read write", "ACL CAT nosuch", "ACL GENPASS 1 2", "ACL GENPASS x", "ACL GENPASS 0",
		"ACL LOG 1 2", "ACL LOG -1", "ACL LOG x", "BGSAVE foo", "BGSAVE SCHEDULE foo"},
	{"names of users", "ACL SETUSER a\x00b"},
	{"keys of commands", "COMMAND GETKEYS", "COMMAND GETKEYS GET", "COMMAND GETKEYS GET a b", "COMMAND GETKEYS GET a", "COMMAND GETKEYS PING x", "COMMAND GETKEYS RANDOMKEY x", "COMMAND GETKEYS nosuch x", "COMMAND GETKEYS MSET a 1 b 2"},
	{"arity in MULTI", "MULTI", "SET a 1", "GET", "EXEC", "GET a", "MULTI", "SET a 1", "EXEC x", "EXEC", "EXEC x", "WATCH a", "MULTI", "nosuch", "SET a 1", "EXEC", "GET a", "MULTI", "HSET h f", "EXEC", "MULTI", "CLIENT KILL", "EXEC", "MULTI", "MULTI x", "EXEC"},
	{"expiry", "GETEX missing EX x", "GETEX missing EX 0", "SET a 1", "GETEX a EX x", "GETEX a EX 0", "GETEX a PX 9223372036854775807", "GETEX a PERSIST PERSIST", "GETEX a EX 5000 EX 6000", "GETEX a EX 5 PERSIST", "HSET h f 1", "GETEX h EX x", "GETEX h foo"},
	{"RESTORE", "SET a 1", "RESTORE a x y", "RESTORE a -1 y", "RESTORE b x y", "RESTORE b 0 y FREQ 256", "RESTORE b 0 y IDLETIME -1", "RESTORE b 0 y IDLETIME 1 FREQ 1", "RESTORE b 0 y FREQ x"},
	{"numbers", "INCRBYFLOAT n 0x10", "INCRBYFLOAT n 0X1p4", "INCRBYFLOAT n 1p4", "INCRBYFLOAT n 0x1_0", "INCRBYFLOAT n Infinity", "INCRBYFLOAT n -INF", "INCRBYFLOAT n infinit", "INCRBYFLOAT n +-1", "SET s x", "INCRBYFLOAT s inf", "HINCRBYFLOAT h f infinity", "HINCRBYFLOAT h f 0x1p4",
		"HSET k f 1", "HRANDFIELD k -9223372036854775808", "HRANDFIELD k 9223372036854775807", "HRANDFIELD k 9223372036854775807 WITHVALUES", "MEMORY USAGE k SAMPLES x", "MEMORY USAGE k SAMPLES -1", "MEMORY USAGE k SAMPLES"},
	{"databases", "SELECT 16", "SELECT -1", "SELECT 01", "SELECT 2147483648", "SELECT 99999999999999999999", "COPY a b DB 2147483648", "COPY a b DB x", "COPY a b DB 16"},
	{"clients", "CLIENT KILL USER nosuch", "CLIENT KILL TYPE nosuch", "CLIENT LIST TYPE nosuch", "CLIENT LIST ID x", "CLIENT LIST ID 01", "CLIENT TRACKING ON REDIRECT x", "CLIENT TRACKING ON REDIRECT -1", "CLIENT TRACKING OFF PREFIX a", "CLIENT TRACKING ON OPTIN", "CLIENT TRACKING ON OPTOUT", "CLIENT TRACKING ON BCAST OPTIN", "CLIENT TRACKING ON", "CLIENT TRACKING ON OPTOUT OPTIN", "CLIENT TRACKING ON OPTOUT", "CLIENT TRACKING OFF", "CLIENT TRACKING ON BCAST OPTIN", "CLIENT TRACKING ON BCAST", "CLIENT TRACKING ON", "HELLO +2", "HELLO 01", "HELLO 99999999999999999999"},
	{"while it listens", "SUBSCRIBE c", "OBJECT ENCODING a", "CONFIG GET x", "GET a", "GET", "COMMAND GETKEYS GET"},
}
