package server

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/server/settings"
)

// Action is a request of a client that changes the server, its users or all keys of a keyspace, as the audit log
// has it: without secrets.
type Action struct {
	// User is who the client is, and From its address.
	User, From string
	// Name is the command, such as acl|setuser, and What the request.
	Name, What string
}

// Audit is called before an action. If it fails, nothing is done. Otherwise the function that it returns is called
// with the outcome.
type Audit func(Action) (done func(error), err error)

// SetAudit has the actions of clients audited from now on. Default: they are not.
func (s *Server) SetAudit(a Audit) { s.audit.Store(&a) }

// auditedArgs are the commands that are audited, each with its arguments as they may be written down.
var auditedArgs = map[string]func(args [][]byte) []string{
	"acl|setuser": maskRules, "acl|deluser": auditedWords, "acl|load": auditedWords, "config|set": maskSettings, "flushall": auditedWords, "flushdb": auditedWords,
	"cleave.index|create": auditedWords, "cleave.index|drop": auditedWords, "shutdown": auditedWords, "client|kill": auditedWords,
}

// perform answers a turn, between two entries of the audit log if the command is audited.
func (t *call) perform(do func(*call)) {
	audit, mask := t.s.audit.Load(), auditedArgs[t.Spec.Name]
	if audit == nil || mask == nil {
		do(t)
		return
	}
	name := strings.ReplaceAll(t.Spec.Name, "|", " ")
	what := append([]string{strings.ToUpper(name)}, mask(t.Args[1+strings.Count(t.Spec.Name, "|"):])...)
	if strings.HasPrefix(t.Spec.Name, "flushdb") || strings.HasPrefix(t.Spec.Name, "cleave.index") {
		what = append(what, "(keyspace "+t.c.keyspace.Name+")")
	}
	done, err := (*audit)(Action{User: t.c.account.User().Name, From: t.c.RemoteAddr, Name: name, What: clip(strings.Join(what, " "), maxAuditedBytes)})
	if err != nil {
		t.out.Fail(redis.Error("ERR nothing was changed: the audit log cannot be written: " + err.Error()))
		return
	}
	start := len(t.out.Bytes)
	do(t)
	done(t.failure(start))
}

// failure returns the error that was answered behind start, nil if there is none.
func (t *call) failure(start int) error {
	answer := t.out.Bytes[start:]
	if !resp.IsError(answer) {
		return nil
	}
	if t.Spec.Name == "acl|setuser" && !strings.Contains(string(answer), "the user was changed") {
		return errors.New("the rules are refused") // the answer has the rule, which may be a password
	}
	text, _, _ := strings.Cut(string(answer[1:]), "\r\n")
	if t.Spec.Name == "config|set" && strings.HasPrefix(text, "ERR Unknown option") {
		text, _, _ = strings.Cut(text, " - ") // what is no setting may be a value
	}
	return errors.New(clip(text, maxAuditedBytes))
}

const (
	// maxAuditedBytes bounds what of a request or an error is in the audit log, and maxAuditedWord what of a word: a
	// request may have 128 MiB.
	maxAuditedBytes = 1 << 10
	maxAuditedWord  = 128
	maxAuditedWords = 64
)

const hiddenValue = "(hidden)"

// auditedWords returns arguments as they are.
func auditedWords(args [][]byte) (list []string) {
	for _, a := range args[:min(len(args), maxAuditedWords)] {
		list = append(list, auditedWord(a))
	}
	return list
}

// auditedWord returns an argument as one word of text.
func auditedWord(a []byte) string {
	text := clip(string(a[:min(len(a), maxAuditedWord+1)]), maxAuditedWord)
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == utf8.RuneError || !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// clip bounds a text, and marks where it ends.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// plainRules are the rules of ACL SETUSER, besides those with a sign, that have no secret.
var plainRules = []string{
	"on", "off", "nopass", "resetpass", "reset", "allkeys", "resetkeys", "allchannels", "resetchannels", "allcommands", "nocommands",
	"sanitize-payload", "skip-sanitize-payload", "clearselectors",
}

// maskRules returns the arguments of ACL SETUSER. What is not known to be harmless may be a password, or a mistyped one.
func maskRules(args [][]byte) []string {
	list := auditedWords(args)
	for i, rule := range list[1:] {
		switch {
		case slices.Contains(plainRules, strings.ToLower(rule)), strings.ContainsRune("+-~%&", rune(rule[0])):
		case strings.ContainsRune("><#!", rune(rule[0])):
			list[1+i] = rule[:1] + hiddenValue
		default:
			list[1+i] = hiddenValue
		}
	}
	return list
}

// maskSettings returns the arguments of CONFIG SET, with the values of known settings that are no secrets.
func maskSettings(args [][]byte) []string {
	list := auditedWords(args)
	for i := 0; i < len(list); i += 2 {
		name := strings.ToLower(list[i])
		ok := settings.IsKnown(name)
		if !ok {
			list[i] = hiddenValue // it may be a value: name and value are exchanged
		}
		if i+1 < len(list) && (!ok || settings.IsSecret(name)) {
			list[i+1] = hiddenValue
		}
	}
	return list
}
