package redis

import (
	"strings"
	"testing"
)

func TestMissing_CommandsSayWhatCleaveLacks(t *testing.T) {
	for name, want := range map[string]string{
		"lpush": "lists", "BLPOP": "lists", "Sadd": "sets", "zrangebyscore": "sorted sets", "XREADGROUP": "streams", "geoadd": "geo commands",
		"pfcount": "HyperLogLogs", "EVALSHA": "scripts", "fcall": "functions", "SORT": "lists, sets and sorted sets",
	} {
		_, err := LookupRequest([][]byte{[]byte(name), []byte("x")})
		if text := "ERR unknown command '" + name + "': Cleave has no " + want + " yet, see docs/redis.md"; err == nil || err.Error() != text {
			t.Errorf("%s: %v, want %s", name, err, text)
		}
	}
	for _, name := range []string{"nosuch", "debug", "lpushy", strings.Repeat("x", 200)} {
		if _, err := LookupRequest([][]byte{[]byte(name)}); err == nil || !strings.HasPrefix(err.Error(), "ERR unknown command '"+name[:min(128, len(name))]+"', with args beginning with: ") {
			t.Errorf("%.10s: %v", name, err)
		}
	}
	for name := range missing {
		if findTopLevel([]byte(name)) != nil {
			t.Errorf("%s is served, and is said to be missing", name)
		}
	}
}
