package page_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/cleavekv/cleave/internal/ops/api"
)

// views are all that the navigation has, and those of one thing.
var views = []string{"overview", "heatmap", "shards", "hotkeys", "jobs", "explain", "data", "settings", "events", "advisor"}

// A person who opens the page of a server with a hot key reads which key it is, who asks for it and how,
// and what the server has done about it.
func TestOverview_NamesTheHotKeyItsClientAndTheDecision(t *testing.T) {
	s := startSite(t, "127.0.0.1:0")
	s.playLoad("stock:42")
	p := s.openTab("")
	p.waitForView("overview")
	p.waitForText(".hot-card", "stock:42")
	p.waitForText(".hot-card", "cart@127.0.0.1")
	p.waitForText(".hot-card", "incr")
	p.waitForText(".hot-card", "±")
	p.waitForText(".hot-card", "of all")
	// The balancer looks each second, and writes down what it has decided.
	p.waitFor("a decision", `[...document.querySelectorAll("#view .panel")].some(e => e.innerText.includes("What was done") && e.querySelector("li"))`)
	p.click(".hot-card a", "Explain")
	p.waitFor("the explanation", `document.querySelector('[data-view="explain"], [data-view="shard"]')`)
	p.waitForText("#view", "stock:42")
}

// Every view opens, empty and with something of everything in it, and writes nothing to the console.
func TestViews_OpenEmptyAndFull(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("full=%t", full), func(t *testing.T) {
			s := startSite(t, "127.0.0.1:0")
			all := views
			if full {
				s.fill()
				s.playLoad(hostileKey)
				jobs, err := s.client.Jobs(ctx)
				if err != nil || len(jobs) == 0 {
					t.Fatalf("%d jobs, %v", len(jobs), err)
				}
				all = append(all, "shards/2", "jobs/"+jobs[0].ID, "explain?key=item:1", "explain?keyspace=ordered&key="+strings.ReplaceAll(hostileKey, " ", "%20"))
			}
			p := s.openTab("#/advisor")
			for _, view := range all {
				name, _, _ := strings.Cut(view, "?")
				noun, _, one := strings.Cut(name, "/")
				if one {
					noun = strings.TrimSuffix(noun, "s")
				}
				p.goTo("#/"+view, noun)
				if text := eval[string](p, `document.querySelector("#view").innerText`); strings.Contains(text, "has failed") || strings.Contains(text, "undefined") || strings.Contains(text, "NaN") || strings.Contains(text, "[object") {
					t.Errorf("%s shows\n%s", view, text)
				}
				if title := eval[string](p, `document.title`); !strings.HasSuffix(title, "Cleave") || len(title) < 10 {
					t.Errorf("%s has the title %q", view, title)
				}
				if full && view != "advisor" && view != "explain" {
					p.waitForText(".same", "curl -fsS")
				}
			}
		})
	}
}

// Keys that look like HTML are text wherever they are shown.
func TestKeys_ThatLookLikeHTML_AreText(t *testing.T) {
	s := startSite(t, "127.0.0.1:0")
	s.fill()
	s.playLoad(hostileKey)
	p := s.openTab("#/overview")
	for hash, view := range map[string]string{"#/overview": "overview", "#/hotkeys": "hotkeys", "#/shards": "shards", "#/data": "data"} {
		p.goTo(hash, view)
		if view != "data" {
			p.waitForText("#view", "<img src=x")
		}
		if eval[bool](p, `Boolean(window.hacked || document.querySelector('#app img[src="x"]'))`) {
			t.Errorf("%s: the key has become an element", hash)
		}
	}
}

// A shard is split by a person with a token: plan, difference, confirmation, job; then there is one more.
func TestAction_SplitsAShard(t *testing.T) {
	s := startSite(t, "127.0.0.1:0")
	s.fill()
	before, err := s.client.Shards(ctx, api.ShardFilter{})
	if err != nil {
		t.Fatal(err)
	}
	p := s.openTab("#/shards/2")
	p.waitForView("shard")
	p.click("#view button", "Split…")
	// A wrong token is refused, and not kept.
	p.allow("401")
	p.waitFor("the field of the token", `document.activeElement?.id === "token"`)
	p.typeText("a-wrong-token-of-the-tests")
	p.typeText(kb.Enter)
	p.waitForText("dialog", "not the token of this server")
	if kept := eval[string](p, `sessionStorage.getItem("cleave-token") ?? ""`); kept != "" {
		t.Errorf("the wrong token is kept: %q", kept)
	}
	p.do(`document.querySelector("#token").value = ""; document.querySelector("#token").focus()`)
	p.typeText(testToken)
	p.typeText(kb.Enter)
	p.waitForText("dialog", "Takes") // the difference
	if now, err := s.client.Shards(ctx, api.ShardFilter{}); err != nil || len(now) != len(before) {
		t.Errorf("a plan has made %d shards of %d, %v", len(now), len(before), err)
	}
	p.click("dialog footer button", "Split")
	p.waitForText("dialog", "done")
	p.click("dialog footer button", "Close")
	p.waitFor("the dialog is gone", `!document.querySelector("dialog")`)
	now, err := s.client.Shards(ctx, api.ShardFilter{})
	if err != nil || len(now) != len(before)+1 {
		t.Errorf("there are %d shards of %d, %v", len(now), len(before), err)
	}
	p.goTo("#/shards", "shards")
	p.waitForText("#view .table-bar", strconv.Itoa(len(before)+1)+" shards")
	// Another tab does not have the token.
	if other := s.openTab("#/overview"); eval[string](other, `sessionStorage.getItem("cleave-token") ?? ""`) != "" {
		t.Error("the token is in another tab")
	}
}

// The address that cleave page prints signs in, and the token does not stay in it.
func TestAddressWithAToken_SignsIn(t *testing.T) {
	s := startSite(t, "127.0.0.1:0")
	p := s.openTab("#token=" + testToken)
	p.waitForView("overview")
	if at := eval[string](p, `location.href + " " + document.title`); strings.Contains(at, "token") {
		t.Errorf("the address is %s", at)
	}
	p.waitForText("header button", "Sign out")
}

// When the server stops the page says since when it is stale; when one is there again, it goes on by itself.
func TestConnection_IsStaleWhileTheServerIsGone(t *testing.T) {
	s := startSite(t, "127.0.0.1:0")
	p := s.openTab("#/overview")
	p.waitFor("live", `document.querySelector('[data-state="live"]')`)
	p.allow("ERR_CONNECTION")
	p.allow("ERR_INCOMPLETE")
	s.stop()
	p.waitForText("header", "stale since")
	if text := eval[string](p, `document.querySelector("#view").innerText`); !strings.Contains(text, "Operations") {
		t.Errorf("what was known is gone:\n%s", text)
	}
	startSite(t, s.addr).checkAnswers()
	p.waitFor("live again", `document.querySelector('[data-state="live"]')`)
}

// Thousands of shards are a list that has few rows at a time in the page.
func TestShards_ThousandsOfThem_AreFewElements(t *testing.T) {
	s := startSite(t, "127.0.0.1:0")
	s.act(api.PathPresplit, api.Presplit{Into: 3000})
	p := s.openTab("#/shards")
	p.waitForText("#view .table-bar", "3,00")
	rows := func() int { return eval[int](p, `document.querySelectorAll("#view tbody tr").length`) }
	if n := rows(); n < 10 || n > 120 {
		t.Errorf("of 3000 shards %d are in the page", n)
	}
	p.do(`document.querySelector(".table-box").scrollTop = 1e9`)
	p.waitFor("the last row", `[...document.querySelectorAll("#view tbody tr")].some(e => Number(e.dataset.index) >= 2999)`)
	if n := rows(); n > 120 {
		t.Errorf("at the end %d are in the page", n)
	}
}
