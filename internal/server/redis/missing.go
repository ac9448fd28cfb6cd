package redis

import "strings"

// missingFamily is commands of Redis 7.0 that Cleave lacks, with what it has none of.
type missingFamily struct{ what, commands string }

var missingFamilies = []missingFamily{
	{"lists", "blmove blmpop blpop brpop brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset ltrim rpop rpoplpush rpush rpushx"},
	{"sets", "sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember smove spop srandmember srem sscan sunion sunionstore"},
	{"sorted sets", "bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax zpopmin " +
		"zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex " +
		"zrevrangebyscore zrevrank zscan zscore zunion zunionstore"},
	{"lists, sets and sorted sets", "sort sort_ro"},
	{"streams", "xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim"},
	{"geo commands", "geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore"},
	{"HyperLogLogs", "pfadd pfcount pfdebug pfmerge pfselftest"},
	{"scripts", "eval eval_ro evalsha evalsha_ro script"},
	{"functions", "fcall fcall_ro"},
}

// missing are what Cleave has none of, by the names of the commands.
var missing = func() map[string]string {
	m := map[string]string{}
	for _, f := range missingFamilies {
		for name := range strings.FieldsSeq(f.commands) {
			m[name] = f.what
		}
	}
	return m
}()

// missingWhat returns what Cleave has none of, so that it lacks a command; empty if Redis has no such command or
// it is of no such family.
func missingWhat(name []byte) string {
	if len(name) > maxNameBytes {
		return ""
	}
	var room [maxNameBytes]byte
	return missing[string(appendLower(room[:0], name))]
}
