package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/cleavekv/cleave/internal/testkit/browser"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// sharedBrowser is started by the first test that needs it, and ends with the last.
var sharedBrowser struct {
	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if sharedBrowser.cancel != nil {
		sharedBrowser.cancel()
	}
	os.Exit(code)
}

// startBrowser returns the context of a browser.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path := browser.Find(t)
	b := &sharedBrowser
	b.once.Do(func() {
		options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.WSURLReadTimeout(eventually.Limit())}
		for _, flag := range browser.Flags {
			options = append(options, chromedp.Flag(flag, true))
		}
		all, stop := chromedp.NewExecAllocator(context.Background(), options...)
		b.ctx, _ = chromedp.NewContext(all)
		b.err = chromedp.Do(b.ctx)
		b.cancel = func() { _ = chromedp.Cancel(b.ctx); stop() }
	})
	if b.err != nil {
		t.Fatalf("%s does not start: %v", path, b.err)
	}
	return b.ctx
}

// tab is a window on a page, with a session of its own.
type tab struct {
	t   *testing.T
	ctx context.Context
	// origin is the server that the page may ask.
	origin string

	mu       sync.Mutex
	problems []string // errors on the console, and requests elsewhere
	allowed  []string // texts of errors that a test makes happen
}

// openTab opens a window of a site. When the test ends, nothing may have gone wrong in it.
func (s *site) openTab(hash string, actions ...chromedp.Action[chromedp.Void]) *tab {
	s.t.Helper()
	ctx, cancel := chromedp.NewContext(startBrowser(s.t), chromedp.WithNewBrowserContext())
	p := &tab{t: s.t, ctx: ctx, origin: "http://" + s.addr}
	s.t.Cleanup(func() {
		p.checkProblems()
		cancel()
	})
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		s.t.Fatal(err)
	}
	p.run(
		call(network.Enable, network.EnableParams{}), call(cdplog.Enable, cdp.Empty{}), call(runtime.Enable, cdp.Empty{}),
		chromedp.EmulateViewport(1440, 900), chromedp.Steps(actions...), chromedp.Navigate(p.origin+"/"+hash))
	return p
}

// call makes an action of a command of the protocol.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// listen writes down what must not happen.
func (p *tab) listen(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = fmt.Sprintf("exception: %+v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			text, _ := json.Marshal(e.Args)
			problem = "console: " + string(text)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			problem = "log: " + e.Entry.Text + " " + e.Entry.URL
		}
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, p.origin+"/") && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "blob:") {
			problem = "a request elsewhere: " + u
		}
	}
	if problem != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.problems = append(p.problems, problem)
	}
}

// allow expects errors with a text.
func (p *tab) allow(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = append(p.allowed, text)
}

// checkProblems reports what has gone wrong.
func (p *tab) checkProblems() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
next:
	for _, problem := range p.problems {
		for _, text := range p.allowed {
			if strings.Contains(problem, text) {
				continue next
			}
		}
		p.t.Error(problem)
	}
	p.problems = nil
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, eventually.Limit())
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("%v\n%s", err, p.shown())
	}
}

// eval returns what a script returns, which may be a promise.
func eval[T any](p *tab, script string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, eventually.Limit())
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", script, err, p.shown())
	}
	return value
}

// do runs a script for what it does.
func (p *tab) do(script string) {
	p.t.Helper()
	eval[chromedp.Void](p, script)
}

// shown returns the text of the page.
func (p *tab) shown() string {
	ctx, cancel := context.WithTimeout(p.ctx, eventually.Limit())
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	return fmt.Sprint(text, err)
}

// waitFor waits until a condition holds in the page.
func (p *tab) waitFor(what, condition string) {
	p.t.Helper()
	holds := func() bool {
		ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+condition+")"))
		return err == nil && ok // it fails while a page is left
	}
	if !eventually.Within(eventually.Limit(), holds) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.t.Fatalf("it does not come: %s. The page says\n%s\n%q", what, p.shown(), p.problems)
	}
}

// quote makes a text one of JavaScript.
func quote(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// waitForText waits until elements of a kind have a text together.
func (p *tab) waitForText(selector, text string) {
	p.t.Helper()
	p.waitFor(fmt.Sprintf("%q in %s", text, selector), fmt.Sprintf(`[...document.querySelectorAll(%s)].map(e => e.innerText).join("\n").includes(%s)`, quote(selector), quote(text)))
}

// waitForView waits until a view shows its data.
func (p *tab) waitForView(name string) {
	p.t.Helper()
	p.waitFor("the view "+name, fmt.Sprintf(`document.querySelector('[data-view=%q]')`, name))
}

// goTo shows another view.
func (p *tab) goTo(hash, view string) {
	p.t.Helper()
	p.do("location.hash = " + quote(hash))
	p.waitForView(view)
}

// click presses the first element of a kind with a text, as soon as it is there.
func (p *tab) click(selector, text string) {
	p.t.Helper()
	found := fmt.Sprintf(`[...document.querySelectorAll(%s)].find(e => e.innerText.includes(%s) && !e.disabled)`, quote(selector), quote(text))
	p.waitFor(fmt.Sprintf("%s with %q", selector, text), found)
	p.do(found + ".click()")
}

// typeText types into the field that has the focus.
func (p *tab) typeText(text string) {
	p.t.Helper()
	p.run(chromedp.KeyEvent(text))
}

// checkAnswers fails unless a server answers.
func (s *site) checkAnswers() {
	s.t.Helper()
	resp, err := http.Get("http://" + s.addr + "/livez")
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
}
