package settings

import (
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave/internal/server/redis"
)

// BufferLimits are the setting client-output-buffer-limit, by the kinds of clients.
type BufferLimits struct{ Normal, Pubsub BufferLimit }

// BufferLimit is how many bytes may wait for a client: never more than hard, and no more
// than soft for longer than a time. 0 is no limit.
type BufferLimit struct {
	Hard, Soft int64
	SoftTime   time.Duration
}

// defaultBufferLimits is the setting at first. Redis has no limit for normal clients: one that asks
// for more than fits into memory, and does not read it, would end the server.
const defaultBufferLimits = "normal 1073741824 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"

// ParseBufferLimits reads the setting. Kinds that it does not name stay as they are.
func ParseBufferLimits(text string, now BufferLimits) (BufferLimits, error) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words)%4 != 0 {
		return now, redis.Error("Wrong number of arguments in buffer limit configuration.")
	}
	for ; len(words) > 0; words = words[4:] {
		hard, ok1 := parseBytes(words[1])
		soft, ok2 := parseBytes(words[2])
		seconds, err := strconv.ParseInt(words[3], 10, 32)
		if !ok1 || !ok2 || err != nil || hard < 0 || soft < 0 || seconds < 0 {
			return now, redis.Error("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
		}
		limit := BufferLimit{hard, soft, time.Duration(seconds) * time.Second}
		switch strings.ToLower(words[0]) {
		case "normal":
			now.Normal = limit
		case "pubsub":
			now.Pubsub = limit
		case "slave", "replica": // there are none
		default:
			return now, redis.Error("Invalid client class specified in buffer limit configuration.")
		}
	}
	return now, nil
}
