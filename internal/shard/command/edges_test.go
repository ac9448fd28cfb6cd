package command

import (
	"strconv"
	"strings"
	"testing"
)

// edgeScripts are the corners of each command, in Redis' words and, but for ifversion,
// with Redis 7's answers. The clock begins at 1000; `wait` lets it run.
var edgeScripts = map[string]string{
	"integers at their limits": `
		set n 9223372036854775807 -> OK
		incrby n 1 -> ErrOverflow
		get n -> "9223372036854775807"
		incrby n -1 -> 9223372036854775806
		set n -9223372036854775808 -> OK
		incrby n -1 -> ErrOverflow
		incrby n 9223372036854775807 -> -1
		incrby n -9223372036854775808 -> ErrOverflow
		set n 0 -> OK
		incrby n -9223372036854775808 -> -9223372036854775808
		incrby new 5 -> 5
		incrby new 0 -> 5`,
	"what is not an integer": `
		set n 9223372036854775808 -> OK
		incrby n 1 -> ErrNotInteger
		set n -9223372036854775809 -> OK
		incrby n 1 -> ErrNotInteger
		set n 99999999999999999999999999 -> OK
		incrby n 1 -> ErrNotInteger
		set n "" -> OK
		incrby n 1 -> ErrNotInteger
		set n "-" -> OK
		incrby n 1 -> ErrNotInteger
		set n -0 -> OK
		incrby n 1 -> ErrNotInteger
		set n 01 -> OK
		incrby n 1 -> ErrNotInteger
		set n " 1" -> OK
		incrby n 1 -> ErrNotInteger
		set n "1 " -> OK
		incrby n 1 -> ErrNotInteger
		set n +1 -> OK
		incrby n 1 -> ErrNotInteger
		set n 1.0 -> OK
		incrby n 1 -> ErrNotInteger
		set n 0 -> OK
		incrby n 1 -> 1`,
	"floats": `
		set f 10.5 -> OK
		incrbyfloat f 0.1 -> "10.6"
		set f 5.0e3 -> OK
		incrbyfloat f 2.0e2 -> "5200"
		set f 0.1 -> OK
		incrbyfloat f 0.2 -> "0.3"
		incrbyfloat f -0.3 -> "0"
		incrbyfloat f inf -> ErrOverflow
		incrbyfloat f -inf -> ErrOverflow
		incrbyfloat f nan -> ErrNotFloat
		incrbyfloat f 1p5 -> ErrNotFloat
		incrbyfloat f " 1" -> ErrNotFloat
		incrbyfloat f "" -> ErrNotFloat
		incrbyfloat f 1e5000 -> ErrNotFloat
		incrbyfloat f 1e-5000 -> ErrNotFloat
		incrbyfloat f 1e999999999999 -> ErrNotFloat
		set f "" -> OK
		incrbyfloat f 1 -> ErrNotFloat
		set f 9223372036854775807 -> OK
		incrbyfloat f 0.25 -> "9223372036854775807"
		set f 1e-20 -> OK
		incrbyfloat f -2e-20 -> "0"
		set f 1.123456789012345678901 -> OK
		incrbyfloat f 0 -> "1.12345678901234568"
		set f -1.5 -> OK
		incrbyfloat f -100 -> "-101.5"
		incrbyfloat new 3 -> "3"
		hset h f v -> 1
		incrbyfloat h 1 -> ErrWrongType`,
	"conditions of set": `
		set k v xx -> nil
		set k v nx -> OK
		set k w nx -> nil
		get k -> "v"
		set k w xx -> OK
		get k -> "w"
		set k x nx get -> "w"
		set k x xx get -> "w"
		get k -> "x"
		set new v xx get -> nil
		exists new -> 0
		set new v nx get -> nil
		get new -> "v"`,
	"versions of set": `
		set k v ifversion 1 -> ErrConflict
		set k v ifversion 0 -> OK
		set k w ifversion 0 -> ErrConflict
		set k w ifversion 1 -> OK
		get k -> "w"
		set k x ifversion 2 px 10 -> OK
		wait 10
		set k x ifversion 3 -> ErrConflict
		set k x ifversion 0 -> OK`,
	"set and types": `
		hset h f v -> 1
		get h -> ErrWrongType
		set h v get -> ErrWrongType
		set h v nx get -> ErrWrongType
		set h v nx -> nil
		hget h f -> "v"
		set h v xx -> OK
		type h -> 1
		hget h f -> ErrWrongType
		del h -> 1
		hset h g w -> 1
		hgetall h -> ["g"="w"]
		type h -> 2
		type none -> 0`,
	"expiry of set": `
		set k v px 0 -> ErrSyntax
		set k v px -1 -> ErrSyntax
		set k v pxat 0 -> ErrSyntax
		set k v px 9223372036854775807 -> ErrSyntax
		exists k -> 0
		set k v px 10 -> OK
		pttl k -> 10
		wait 9
		pttl k -> 1
		get k -> "v"
		wait 1
		get k -> nil
		pttl k -> -2
		set k v xx -> nil
		set k v px 10 -> OK
		set k w keepttl -> OK
		pttl k -> 10
		pexpiretime k -> 1020
		set k w -> OK
		pttl k -> -1
		pexpiretime k -> -1
		set k w keepttl -> OK
		pttl k -> -1
		set k w pxat 1 get -> "w"
		exists k -> 0
		set k v pxat 1 -> OK
		exists k -> 0`,
	"a dead key leaves its expiry behind": `
		set k v px 10 -> OK
		wait 10
		set k w keepttl -> OK
		pttl k -> -1
		set n 5 px 10 -> OK
		wait 10
		incrby n 1 -> 1
		pttl n -> -1
		append n 0 -> 2
		hset h f v -> 1
		pexpire h 10 -> 1
		wait 10
		hgetall h -> []
		hset h g w -> 1
		pttl h -> -1
		hgetall h -> ["g"="w"]
		hlen h -> 1`,
	"writes keep the expiry": `
		set n 5 px 100 -> OK
		incrby n 1 -> 6
		incrbyfloat n 1 -> "7"
		append n 0 -> 2
		setrange n 0 9 -> 2
		pttl n -> 100
		hset h f 1 -> 1
		pexpire h 50 -> 1
		hincrby h f 1 -> 2
		hset h g v -> 1
		hdel h f -> 1
		pttl h -> 50`,
	"expire": `
		pexpire none 10 -> 0
		set k v -> OK
		pexpire k 10 gt -> 0
		pexpire k 10 xx -> 0
		pexpire k 10 lt -> 1
		pexpire k 20 nx -> 0
		pexpire k 20 lt -> 0
		pexpire k 10 gt -> 0
		pexpire k 20 gt -> 1
		pexpire k 20 lt -> 0
		pexpire k 30 xx gt -> 1
		pttl k -> 30
		persist k -> 1
		persist k -> 0
		persist none -> 0
		pexpire k 10 nx -> 1
		pexpire k 10 nx xx -> ErrSyntax
		pexpire k 10 nx gt -> ErrSyntax
		pexpire k 10 nx lt -> ErrSyntax
		pexpire k 10 gt lt -> ErrSyntax
		pexpire k 9223372036854775807 -> ErrSyntax
		pttl k -> 10
		pexpire k -1 gt -> 0
		pexpire k -1 -> 1
		exists k -> 0
		set k v -> OK
		pexpire k 0 -> 1
		exists k -> 0
		set k v -> OK
		pexpireat k 0 -> 1
		exists k -> 0
		set k v -> OK
		pexpire k -9223372036854775808 -> 1
		exists k -> 0
		hset h f v -> 1
		pexpireat h 1000 -> 1
		hlen h -> 0`,
	"delete and exists": `
		set a 1 -> OK
		hset b f v -> 1
		exists a b c a -> 3
		del a b c a -> 2
		exists a b -> 0
		set a 1 px 10 -> OK
		wait 10
		del a -> 0
		exists a -> 0`,
	"parts of strings": `
		set s hello -> OK
		getrange s -3 -1 -> "llo"
		getrange s -1 -3 -> ""
		getrange s 2 1 -> ""
		getrange s -100 100 -> "hello"
		getrange s 0 -100 -> "h"
		getrange s 9223372036854775807 -9223372036854775808 -> ""
		getrange none 0 -1 -> ""
		setrange none 5 "" -> 0
		exists none -> 0
		setrange s 9 "" -> 5
		setrange s -1 x -> ErrSyntax
		setrange p 2 x -> 3
		get p -> "\x00\x00x"
		setrange s 1 ipp -> 5
		get s -> "hippo"
		setrange s 67108864 x -> ErrTooLarge
		setrange s 9223372036854775807 x -> ErrTooLarge
		strlen s -> 5
		strlen none -> 0
		append new "" -> 0
		exists new -> 1
		hset h f v -> 1
		append h x -> ErrWrongType
		strlen h -> ErrWrongType
		getrange h 0 1 -> ErrWrongType
		setrange h 0 x -> ErrWrongType`,
	"hashes": `
		hset h f 1 f 2 g 3 -> 2
		hget h f -> "2"
		hset h f 4 new 5 -> 1
		hmget h f none g f -> ["f"="4" "none"=nil "g"="3" "f"="4"]
		hsetnx h f 9 -> 0
		hsetnx h x "" -> 1
		hget h x -> ""
		hexists h x -> 1
		hexists h y -> 0
		hstrlen h x -> 0
		hstrlen h f -> 1
		hlen h -> 4
		hdel h none -> 0
		hdel h f f x -> 2
		hgetall h -> ["g"="3" "new"="5"]
		hdel h g new -> 2
		exists h -> 0
		hdel h g -> 0
		hset h "" empty -> 1
		hget h "" -> "empty"
		hgetall h -> [""="empty"]
		hset h -> ErrSyntax
		hdel h -> ErrSyntax
		hmget h -> ErrSyntax`,
	"hashes and types": `
		set s v -> OK
		hset s f v -> ErrWrongType
		hget s f -> ErrWrongType
		hdel s f -> ErrWrongType
		hlen s -> ErrWrongType
		hgetall s -> ErrWrongType
		hincrby s f 1 -> ErrWrongType
		get s -> "v"
		hget none f -> nil
		hlen none -> 0
		hgetall none -> []
		hmget none f -> ["f"=nil]`,
	"numbers in hashes": `
		hincrby h n 5 -> 5
		hincrby h n 9223372036854775807 -> ErrOverflow
		hincrby h n -9223372036854775808 -> -9223372036854775803
		hset h t abc e "" s " 1" -> 3
		hincrby h t 1 -> ErrNotInteger
		hincrby h e 1 -> ErrNotInteger
		hincrby h s 1 -> ErrNotInteger
		hincrbyfloat h t 1 -> ErrNotFloat
		hincrbyfloat h x 0.1 -> "0.1"
		hincrbyfloat h x 0.2 -> "0.3"
		hlen h -> 5`,
	"old fields never come back": `
		hset h a 1 b 2 -> 2
		del h -> 1
		hset h c 3 -> 1
		hget h a -> nil
		hgetall h -> ["c"="3"]
		set h text -> OK
		del h -> 1
		hset h d 4 -> 1
		hgetall h -> ["d"="4"]
		pexpire h 5 -> 1
		wait 5
		hset h a 9 -> 1
		hgetall h -> ["a"="9"]
		hsetnx h b 8 -> 1
		hlen h -> 2
		pexpire h -1 -> 1
		hincrby h a 1 -> 1
		hgetall h -> ["a"="1"]`,
}

func TestEdgesAnswerLikeRedis(t *testing.T) {
	for name, script := range edgeScripts {
		for _, committing := range []bool{true, false} {
			t.Run(strings.ReplaceAll(name, " ", "-")+"/each-committed="+strconv.FormatBool(committing), func(t *testing.T) {
				runScript(t, script, committing)
			})
		}
	}
}

// runScript evaluates a script in one batch, or in one for each line.
func runScript(t *testing.T, script string, committing bool) {
	l := newTestEnv(t)
	for line := range strings.Lines(strings.TrimSpace(script)) {
		line = strings.TrimSpace(line)
		if ms, ok := strings.CutPrefix(line, "wait "); ok {
			n, err := strconv.ParseInt(ms, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			l.advanceClock(n)
			continue
		}
		words, want, _ := strings.Cut(line, " -> ")
		if got := formatReply(l.env.Do(parseCommand(words))); got != want {
			t.Errorf("%s: got %s, want %s", words, got, want)
		}
		if committing {
			l.commit()
		}
	}
}
