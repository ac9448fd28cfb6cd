package server

import (
	"github.com/cleavekv/cleave/internal/server/redis"
)

func init() {
	registerHandlers(map[string]func(*call){
		"slowlog|get": handleSlowlogGet,
		"slowlog|len": func(t *call) { t.out.Int(int64(t.s.slowlog.Len())) },
		"slowlog|reset": func(t *call) {
			t.s.slowlog.Reset()
			t.out.OK()
		},
		"slowlog|help": newHelpHandler("SLOWLOG", "GET [<count>]", "    Return top <count> entries from the slowlog (default: 10, -1 mean all).", "    Entries are made of:",
			"    id, timestamp, time in microseconds, arguments array, client IP and port,", "    client name", "LEN", "    Return the length of the slowlog.",
			"RESET", "    Reset the slowlog."),
	})
}

func handleSlowlogGet(t *call) {
	n := 10
	if len(t.Args) > 3 {
		t.out.Fail(redis.SubcommandArity(&t.Request))
		return
	}
	if len(t.Args) == 3 {
		most, ok := redis.Integer(t.Args[2])
		if n = int(most); !ok || n < -1 {
			t.out.Fail(redis.Error("ERR count should be greater than or equal to -1"))
			return
		}
	}
	list := t.s.slowlog.ListNewest(n)
	t.out.Array(len(list))
	for _, e := range list {
		t.out.Array(6)
		t.out.Int(e.ID)
		t.out.Int(e.Time.Unix())
		t.out.Int(e.Took.Microseconds())
		t.writeTexts(e.Args)
		t.out.Text(e.From)
		t.out.Text(e.Name)
	}
}
