package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/partition"
)

// parse makes a command from a line in Redis' words. It is for tests: it takes
// a line that makes no sense for a bug of the test.
func parse(line string) Command {
	args := split(line)
	word, args := args[0], args[1:]
	key := func() partition.Position { return at(args[0]) }
	num := func(i int) int64 {
		n, err := strconv.ParseInt(args[i], 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	text := func(i int) []byte { return []byte(args[i]) }
	switch word {
	case "set":
		return parseSet(args)
	case "get":
		return &Get{Key: key()}
	case "del", "exists":
		var keys []partition.Position
		for _, arg := range args {
			keys = append(keys, at(arg))
		}
		if word == "del" {
			return &Delete{Keys: keys}
		}
		return &Exists{Keys: keys}
	case "incrby":
		return &Add{Key: key(), Delta: num(1)}
	case "incrbyfloat":
		return &AddFloat{Key: key(), Delta: text(1)}
	case "append":
		return &Append{Key: key(), Tail: text(1)}
	case "strlen":
		return &Strlen{Key: key()}
	case "getrange":
		return &GetRange{Key: key(), Start: num(1), End: num(2)}
	case "setrange":
		return &SetRange{Key: key(), Offset: num(1), Part: text(2)}
	case "pexpire", "pexpireat":
		c := &Expire{Key: key(), Expiry: In(num(1))}
		if word == "pexpireat" {
			c.Expiry = At(num(1))
		}
		flags := map[string]ExpireFlags{"nx": ExpireNX, "xx": ExpireXX, "gt": ExpireGT, "lt": ExpireLT}
		for _, arg := range args[2:] {
			c.Flags |= flags[arg]
		}
		return c
	case "persist":
		return &Persist{Key: key()}
	case "pttl", "pexpiretime":
		return &TTL{Key: key(), Absolute: word == "pexpiretime"}
	case "type":
		return &Type{Key: key()}
	}
	return parseHash(word, args)
}

func parseSet(args []string) Command {
	c := &Set{Key: at(args[0]), Value: []byte(args[1])}
	for i := 2; i < len(args); i++ {
		switch args[i] {
		case "nx":
			c.If = IfAbsent
		case "xx":
			c.If = IfPresent
		case "get":
			c.ReturnOld = true
		case "keepttl":
			c.Expiry = Keep()
		default:
			n, err := strconv.ParseInt(args[i+1], 10, 64)
			if err != nil {
				panic(err)
			}
			switch args[i] {
			case "px":
				c.Expiry = In(n)
			case "pxat":
				c.Expiry = At(n)
			case "ifversion":
				c.If, c.Version = IfVersion, uint64(n)
			}
			i++
		}
	}
	return c
}

func parseHash(word string, args []string) Command {
	key := at(args[0])
	var fields [][]byte
	for _, arg := range args[1:] {
		fields = append(fields, []byte(arg))
	}
	switch word {
	case "hset", "hsetnx":
		c := &HSet{Key: key, OnlyNew: word == "hsetnx"}
		for i := 0; i+1 < len(fields); i += 2 {
			c.Fields = append(c.Fields, FieldValue{fields[i], fields[i+1]})
		}
		return c
	case "hget":
		return &HGet{Key: key, Field: fields[0]}
	case "hmget":
		return &HMGet{Key: key, Fields: fields}
	case "hdel":
		return &HDel{Key: key, Fields: fields}
	case "hgetall":
		return &HGetAll{Key: key}
	case "hlen":
		return &HLen{Key: key}
	case "hexists":
		return &HExists{Key: key, Field: fields[0]}
	case "hstrlen":
		return &HStrlen{Key: key, Field: fields[0]}
	case "hincrby":
		n, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			panic(err)
		}
		return &HIncrBy{Key: key, Field: fields[0], Delta: n}
	case "hincrbyfloat":
		return &HIncrByFloat{Key: key, Field: fields[0], Delta: fields[1]}
	}
	panic("no such command: " + word)
}

// split cuts a line at spaces; a word in quotes is Go's.
func split(line string) (words []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word, rest, _ := strings.Cut(line, " ")
		if quoted, err := strconv.QuotedPrefix(line); err == nil {
			word, _ = strconv.Unquote(quoted)
			rest = line[len(quoted):]
		}
		words, line = append(words, word), rest
	}
	return words
}

// say is a reply in the words of the scripts.
func say(r Reply) string {
	switch r.Kind {
	case Nil:
		return "nil"
	case OK:
		return "OK"
	case Int:
		return strconv.FormatInt(r.Int, 10)
	case Bytes:
		return strconv.Quote(string(r.Bytes))
	case Items:
		var words []string
		for _, item := range r.Items {
			value := "nil"
			if item.Found {
				value = strconv.Quote(string(item.Value))
			}
			words = append(words, fmt.Sprintf("%q=%s", item.Field, value))
		}
		return "[" + strings.Join(words, " ") + "]"
	}
	names := map[string]error{
		"ErrWrongType": ErrWrongType, "ErrNotInteger": ErrNotInteger, "ErrNotFloat": ErrNotFloat, "ErrOverflow": ErrOverflow,
		"ErrConflict": ErrConflict, "ErrTooLarge": ErrTooLarge, "ErrSyntax": ErrSyntax, "ErrRow": ErrRow,
	}
	for name, err := range names {
		if errors.Is(r.Err, err) {
			return name
		}
	}
	return fmt.Sprint(r.Err)
}
