package page_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// inColors opens a tab for a person who likes light or dark.
func inColors(scheme string) chromedp.Action[chromedp.Void] {
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// No view has what keeps people out who see little or use a keyboard: names of controls, contrast, roles,
// in light and dark. axe-core looks for it; its serious and critical findings count.
func TestViews_AreAccessible(t *testing.T) {
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	s := startSite(t, "127.0.0.1:0")
	s.fill()
	s.playLoad(hostileKey)
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			s.t = t
			p := s.openTab("#/overview", inColors(scheme))
			p.waitForView("overview")
			p.do(string(axe) + "; void 0")
			for _, view := range append([]string{"shards/2", "explain?key=item:1"}, views...) {
				name, _, _ := strings.Cut(view, "?")
				if noun, _, one := strings.Cut(name, "/"); one {
					name = strings.TrimSuffix(noun, "s")
				}
				p.goTo("#/"+view, name)
				found := eval[[]string](p, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.filter(v => v.impact === "serious" || v.impact === "critical")
					.map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.any.map(a => a.message).join("; ")).join(" | ")))`)
				for _, f := range found {
					t.Errorf("%s in %s: %s", view, scheme, f)
				}
			}
		})
	}
	s.t = t
}

// Tab goes from the link that skips the navigation through it to the content, and each stop is seen.
func TestKeyboard_GoesThroughThePage(t *testing.T) {
	s := startSite(t, "127.0.0.1:0")
	s.fill()
	p := s.openTab("#/shards")
	p.waitForView("shards")
	focus := func() string {
		return eval[string](p, `(() => { const e = document.activeElement, s = getComputedStyle(e);
			return e.tagName + " " + (e.innerText || e.getAttribute("aria-label") || "").trim().split("\n")[0] + (s.outlineStyle === "none" && s.boxShadow === "none" ? " UNSEEN" : ""); })()`)
	}
	var stops []string
	for range 24 {
		p.typeText(kb.Tab)
		stops = append(stops, focus())
	}
	all := strings.Join(stops, "\n")
	if !strings.HasPrefix(all, "A Skip to the content\n") || strings.Contains(all, "UNSEEN") {
		t.Errorf("the stops are\n%s", all)
	}
	for i, view := range []string{"Overview", "Heat map", "Shards", "Hot keys"} {
		if i+2 < len(stops) && !strings.HasSuffix(stops[i+2], " "+view) {
			t.Errorf("stop %d is %q, not %s:\n%s", i+3, stops[i+2], view, all)
		}
	}
	// Letters lead to views, the slash to the filter, arrows through the rows, Enter into one.
	p.do(`document.activeElement.blur()`)
	p.typeText("gk")
	p.waitForView("hotkeys")
	p.typeText("gs")
	p.waitForView("shards")
	p.do(`document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true}))`) // typed by the protocol, the character would follow
	p.waitFor("the filter has the focus", `document.activeElement.matches(".filter")`)
	p.typeText("ordered")
	p.waitFor("the address has the filter", `location.hash.includes("q=ordered")`)
	rows := eval[int](p, `document.querySelectorAll("#view tbody tr").length`)
	if rows == 0 || rows > 3 {
		t.Errorf("the filter leaves %d rows", rows)
	}
	p.do(`document.querySelector("#view tbody tr[tabindex='0']").focus()`)
	p.typeText(kb.ArrowDown)
	p.waitFor("the next row", `document.activeElement.dataset.index === "1"`)
	key := eval[string](p, `document.activeElement.dataset.rowKey`)
	p.typeText(kb.Enter)
	p.waitForView("shard")
	if at := eval[string](p, `location.hash`); at != "#/shards/"+key {
		t.Errorf("Enter on shard %s leads to %s", key, at)
	}
}

// On a phone nothing is wider than the screen.
func TestViews_FitAPhone(t *testing.T) {
	s := startSite(t, "127.0.0.1:0")
	s.fill()
	p := s.openTab("#/overview", chromedp.EmulateViewport(390, 844))
	for _, view := range views {
		p.goTo("#/"+view, view)
		if wide := eval[string](p, `document.documentElement.scrollWidth > innerWidth ? document.documentElement.scrollWidth + " pixels" : ""`); wide != "" {
			t.Errorf("%s is %s wide", view, wide)
		}
		if n := eval[int](p, `[...document.querySelectorAll("nav.bottom a")].filter(e => e.getBoundingClientRect().height >= 24).length`); n < 4 {
			t.Errorf("%s has a navigation of %s", view, fmt.Sprint(n))
		}
	}
}
