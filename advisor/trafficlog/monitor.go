package trafficlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cleavekv/cleave/advisor"
)

const (
	// maxMonitorLine is how long a line may be. A longer one is skipped and counted.
	maxMonitorLine = advisor.MaxRecordBytes
	// monitorLines is how many lines are read at a time.
	monitorLines = 8192
	// maxMonitorKeys is how many keys of one request are looked at.
	maxMonitorKeys = 1024
)

// NewMonitorReader returns a source of what the command MONITOR of a Redis server has printed, as redis-cli monitor
// writes it to a file. Sizes are those of requests, because there are no replies. Requests without keys are left out;
// lines that are none are skipped, counted and named.
func NewMonitorReader(in io.Reader, o Options) *Reader {
	m := &monitor{in: bufio.NewReaderSize(in, maxMonitorLine)}
	r := NewReader(m.next, o)
	r.problems = func() []advisor.Problem {
		found := m.problems
		m.problems = nil
		return found
	}
	r.input = func() int64 {
		n := m.bytes
		m.bytes = 0
		return n
	}
	return r
}

// monitor reads lines.
type monitor struct {
	in       *bufio.Reader
	line     int64
	bytes    int64
	problems []advisor.Problem
	words    [][]byte
	keys     [][]byte
}

// next appends the operations of the next lines.
func (m *monitor) next(ops []Operation) ([]Operation, error) {
	for range monitorLines {
		text, err := m.in.ReadSlice('\n')
		m.bytes += int64(len(text))
		if len(text) == 0 && errors.Is(err, io.EOF) {
			if len(ops) == 0 && len(m.problems) == 0 {
				return ops, io.EOF
			}
			return ops, nil
		}
		m.line++
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				var rest []byte
				rest, err = m.in.ReadSlice('\n')
				m.bytes += int64(len(rest))
			}
			m.problems = append(m.problems, advisor.Problem{Line: m.line, What: fmt.Sprintf("a line of more than %d KiB", maxMonitorLine>>10)})
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return ops, fmt.Errorf("trafficlog: %w", err)
		}
		ops = m.appendLine(ops, bytes.TrimRight(text, "\r\n"))
	}
	return ops, nil
}

// appendLine appends the operations of a line such as 1339518083.107412 [0 127.0.0.1:60866] "get" "k".
func (m *monitor) appendLine(ops []Operation, text []byte) []Operation {
	if len(text) == 0 || string(text) == "OK" {
		return ops
	}
	var err error
	if m.words, err = parseMonitorLine(m.words[:0], text); err != nil {
		m.problems = append(m.problems, advisor.Problem{Line: m.line, What: err.Error()})
		return ops
	}
	var write bool
	m.keys, write = appendKeys(m.keys[:0], m.words)
	size := 0
	for _, w := range m.words {
		size += len(w)
	}
	for _, k := range m.keys {
		ops = append(ops, Operation{Key: k, Write: write, Bytes: size / len(m.keys), Line: m.line})
	}
	return ops
}

// errMonitor is why a line is none of MONITOR.
var errMonitor = errors.New(`not a line of MONITOR, such as 1339518083.107412 [0 127.0.0.1:60866] "get" "k"`)

// parseMonitorLine appends the words of a request.
func parseMonitorLine(words [][]byte, text []byte) ([][]byte, error) {
	stamp, rest, found := bytes.Cut(text, []byte(" ["))
	if !found || len(stamp) == 0 || stamp[0]-'0' > 9 {
		return words, errMonitor
	}
	_, rest, found = bytes.Cut(rest, []byte(`] "`))
	if !found {
		return words, errMonitor
	}
	for {
		word, after, err := unquoteWord(rest)
		if err != nil {
			return words, err
		}
		words = append(words, word)
		if len(after) == 0 {
			return words, nil
		}
		if rest, found = bytes.CutPrefix(after, []byte(` "`)); !found {
			return words, fmt.Errorf("byte %d: want a word in quotes", len(text)-len(after)+1)
		}
	}
}

// unquoteWord returns a word up to its closing quote, and what stands behind that.
func unquoteWord(text []byte) (word, rest []byte, err error) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return word, text[i+1:], nil
		case c != '\\':
			word = append(word, c)
		case i+3 < len(text) && text[i+1] == 'x' && hexOf(text[i+2]) >= 0 && hexOf(text[i+3]) >= 0:
			word = append(word, byte(hexOf(text[i+2])<<4|hexOf(text[i+3])))
			i += 3
		case i+1 < len(text):
			i++
			if at := strings.IndexByte("nrtab", text[i]); at >= 0 {
				word = append(word, "\n\r\t\a\b"[at])
			} else {
				word = append(word, text[i])
			}
		}
	}
	return nil, nil, errors.New("a word without its closing quote: the line was cut off")
}

func hexOf(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }

// Commands by which words of them are keys. All others have the first one as their key, as nearly all of Redis do.
const (
	withoutKeys = " acl asking auth bgrewriteaof bgsave client cluster command config dbsize debug discard echo exec failover flushall flushdb function hello info keys lastsave latency lolwut module monitor multi ping psubscribe psync publish punsubscribe quit randomkey readonly readwrite replconf replicaof reset role save scan script select shutdown slaveof slowlog spublish ssubscribe subscribe sunsubscribe swapdb sync time unsubscribe unwatch wait waitaof "
	allKeys     = " del exists mget pfcount pfmerge rename renamenx rpoplpush sdiff sdiffstore sinter sinterstore sunion sunionstore touch unlink watch lcs "
	pairsOfKeys = " mset msetnx "
	allButLast  = " blpop brpop bzpopmin bzpopmax "
	twoKeys     = " blmove brpoplpush copy geosearchstore lmove smove zrangestore "
	// numberFirst have the number of keys first, numberSecond behind another word.
	numberFirst  = " lmpop sintercard zdiff zinter zintercard zmpop zunion "
	numberSecond = " blmpop bzmpop eval eval_ro evalsha evalsha_ro fcall fcall_ro "
	// behindStore have a key, the number of keys, and those.
	behindStore = " zdiffstore zinterstore zunionstore "
	secondWord  = " bitop memory object xgroup xinfo "
	behindWord  = " xread xreadgroup "
	readers     = " bitcount bitfield_ro bitpos dump eval_ro evalsha_ro exists expiretime fcall_ro geodist geohash geopos georadius_ro georadiusbymember_ro geosearch get getbit getrange hexists hexpiretime hget hgetall hkeys hlen hmget hpexpiretime hpttl hrandfield hscan hstrlen httl hvals lcs lindex llen lpos lrange memory mget object pexpiretime pfcount pttl scard sdiff sinter sintercard sismember smembers smismember sort_ro srandmember sscan strlen substr sunion touch ttl type watch xinfo xlen xpending xrange xread xrevrange zcard zcount zdiff zinter zintercard zlexcount zmscore zrandmember zrange zrangebylex zrangebyscore zrank zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion "
)

// appendKeys appends the keys of a request, and reports whether it writes.
func appendKeys(keys, words [][]byte) (_ [][]byte, write bool) {
	name := " " + strings.ToLower(string(words[0])) + " "
	is := func(list string) bool { return strings.Contains(list, name) }
	args := words[1:]
	write = !is(readers)
	switch {
	case is(withoutKeys) || len(args) == 0:
		return keys, write
	case is(allKeys):
		keys = append(keys, args...)
	case is(pairsOfKeys):
		for i := 0; i < len(args); i += 2 {
			keys = append(keys, args[i])
		}
	case is(allButLast):
		keys = append(keys, args[:len(args)-1]...)
	case is(twoKeys):
		keys = append(keys, args[:min(2, len(args))]...)
	case is(numberFirst):
		keys = appendNumbered(keys, args)
	case is(numberSecond):
		keys = appendNumbered(keys, args[1:])
	case is(behindStore):
		keys = appendNumbered(append(keys, args[0]), args[1:])
	case name == " bitop ":
		keys = append(keys, args[1:]...)
	case is(secondWord):
		keys = append(keys, args[min(1, len(args)):min(2, len(args))]...)
	case is(behindWord):
		for i, a := range args {
			if strings.EqualFold(string(a), "streams") {
				rest := args[i+1:]
				keys = append(keys, rest[:len(rest)/2]...)
				break
			}
		}
	default:
		keys = append(keys, args[0])
	}
	return keys[:min(len(keys), maxMonitorKeys)], write
}

// appendNumbered appends keys that stand behind their number.
func appendNumbered(keys, args [][]byte) [][]byte {
	if len(args) == 0 {
		return keys
	}
	n := 0
	for _, c := range args[0] {
		if c-'0' > 9 || n > maxMonitorKeys {
			return keys
		}
		n = 10*n + int(c-'0')
	}
	return append(keys, args[1:min(1+n, len(args))]...)
}
