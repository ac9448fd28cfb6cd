package serve

import "github.com/cleavekv/cleave/internal/redis"

func init() {
	handle(map[string]func(*turn){"shutdown": shutdown})
}

// shutdown asks for the end of the server, and answers nothing: the client sees that the
// connection ends. All that was acknowledged is kept, with SAVE and without. NOW and FORCE are
// about replicas, of which there are none.
func shutdown(t *turn) {
	var save, noSave, abort bool
	for _, arg := range t.Args[1:] {
		switch {
		case redis.Is(arg, "SAVE"):
			save = true
		case redis.Is(arg, "NOSAVE"):
			noSave = true
		case redis.Is(arg, "ABORT"):
			abort = true
		case redis.Is(arg, "NOW"), redis.Is(arg, "FORCE"):
		default:
			t.out.Fail(redis.ErrSyntax)
			return
		}
	}
	switch {
	case save && noSave || abort && len(t.Args) > 2:
		t.out.Fail(redis.ErrSyntax)
	case abort:
		t.out.Fail(redis.Error("ERR No shutdown in progress."))
	case t.s.opts.Shutdown == nil:
		t.out.Fail(redis.Error("ERR SHUTDOWN is not served here: end the program that the server is part of"))
	default:
		t.s.opts.Log.Warn("a client ends the server", "id", t.c.id, "addr", t.c.from)
		t.s.opts.Shutdown()
	}
}
