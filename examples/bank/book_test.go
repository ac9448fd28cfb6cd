package main

import (
	"maps"
	"strings"
	"testing"
)

// TestTheAuditFindsWhatIsWrong shows that a bank that loses something would be
// caught: the audit is right about a good one, and finds each fault in a bad one.
func TestTheAuditFindsWhatIsWrong(t *testing.T) {
	told := order{"told", account(0), account(1), 10}
	silent := order{"silent", account(2), account(3), 20}
	no := order{"no", account(4), account(5), 5000}
	early := order{"early", account(6), account(7), 30}
	late := order{"late", account(8), account(9), 40}
	b := newBook()
	for _, o := range []order{told, silent, no, early, late} {
		if err := b.asked(o); err != nil {
			t.Fatal(err)
		}
	}
	b.answered(told.id, acknowledged)
	b.answered(no.id, refused)
	b.orders[early.id].killed, b.orders[early.id].victim = debited, true
	b.orders[late.id].killed, b.orders[late.id].victim = committed, true
	b.orders[silent.id].killed = anywhere

	// made is the bank after some orders.
	made := func(orders ...order) state {
		s := state{map[string]int64{}, map[string]order{}}
		for i := range accounts {
			s.balances[account(i)] = deposit
		}
		for _, o := range orders {
			s.balances[o.from] -= o.amount
			s.balances[o.to] += o.amount
			s.log[o.id] = o
		}
		return s
	}
	with := func(s state, name string, more int64) state {
		s.balances = maps.Clone(s.balances)
		s.balances[name] += more
		return s
	}
	other := told
	other.amount++
	without := made(told, late)
	delete(without.balances, account(11))
	for _, c := range []struct {
		name  string
		state state
		want  string // nothing if it is a good one
	}{
		{"an unknown order did not happen", made(told, late), ""},
		{"an unknown order happened", made(told, late, silent), ""},
		{"money is lost", with(made(told, late), told.to, -10), "all accounts together have 11990"},
		{"money is made", with(made(told, late), told.from, 10), "all accounts together have 12010"},
		{"an order is done twice", with(with(made(told, late), told.from, -10), told.to, 10), "account-00 has 980, the log says 990"},
		{"only the money of an order moved", with(with(made(told, late), silent.from, -20), silent.to, 20), "account-02 has 980, the log says 1000"},
		{"an account is gone", without, "account-11 has 0"},
		{"an account is overdrawn", with(made(told, late), account(11), -2000), "account-11 is overdrawn"},
		{"an acknowledged order is lost", made(late), "{told account-00 account-01 10} was acknowledged"},
		{"a refused order is done", made(told, late, no), "{no account-04 account-05 5000} was refused"},
		{"an order is done before its commit", made(told, late, early), "was killed after the debit: done is true"},
		{"an order is lost after its commit", made(told), "was killed before the answer: done is false"},
		{"an order is another one", made(other, late), "which nobody asked for"},
		{"an order comes from nowhere", made(told, late, order{"x", account(0), account(1), 1}), "which nobody asked for"},
	} {
		err := b.audit(c.state)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestUnknownOutcomesAreCountedWhereTheyAroseAndAskedAgain(t *testing.T) {
	b := newBook()
	a, c := order{"a", account(0), account(1), 1}, order{"c", account(1), account(2), 1}
	for _, o := range []order{a, c} {
		if err := b.asked(o); err != nil {
			t.Fatal(err)
		}
	}
	b.kill(committing, a.id)
	b.kill(opening, "") // nothing new is unknown
	again := b.resolve(state{log: map[string]order{a.id: a}})
	if len(again) != 2 || again[0] != a || again[1] != c {
		t.Errorf("to be asked again: %v", again)
	}
	if l := b.lines[committing]; l != (line{kills: 1, unknown: 2, done: 1, undone: 1}) {
		t.Errorf("%+v", l)
	}
	if l := b.lines[opening]; l != (line{kills: 1}) {
		t.Errorf("%+v", l)
	}
	if err := b.auditLog(map[string]order{}); len(err) != 1 {
		t.Errorf("an order that was seen is gone: %v", err)
	}
	if b.settled() == nil {
		t.Error("settled before there was an answer")
	}
	for _, o := range again {
		if err := b.asked(o); err != nil {
			t.Fatal(err)
		}
		b.answered(o.id, acknowledged)
	}
	if err := b.settled(); err != nil || b.again != 2 {
		t.Errorf("%d asked again: %v", b.again, err)
	}
	a.amount++
	if b.asked(a) == nil {
		t.Error("an id was used for two orders")
	}
}
