// Command shots takes the pictures of the page that the documentation shows.
//
//	go run ./internal/ops/page/shots -out docs/images
//
// It starts a server in this process, plays loads that make it hot in each way that the guide
// docs/operate-by-looking.md tells, for as long as the heat map needs to show them, and takes the
// pictures with Chromium. `make screenshots` calls it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/admin"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/server"
)

const token = "a-token-for-the-pictures"

// picture is one of a view.
type picture struct {
	name, hash    string
	scheme        string
	width, height int64
	// before is a script that runs first: it may click. Until is what must hold before the picture.
	before, until string
}

// pictures are those that documents show.
var pictures = []picture{
	{"overview-light", "#/overview", "light", 1280, 900, "", `document.querySelector(".hot-card")`},
	{"heatmap-dark", "#/heatmap?metric=writes", "dark", 1280, 820, "", `document.querySelector("[data-pattern]")`},
	{"moving-edge", "#/heatmap?metric=writes&keyspace=orders", "light", 1280, 900, `document.querySelector('[data-pattern="diagonal"]')?.click()`, `document.querySelector(".heat-details")`},
	{"hot-keys", "#/hotkeys", "light", 1280, 560, "", `document.querySelector("#view tbody tr")`},
	{"shards-dark", "#/shards", "dark", 1280, 620, "", `document.querySelector("#view tbody tr")`},
}

func main() {
	out := flag.String("out", "docs/images", "`directory` of the pictures")
	play := flag.Duration("play", 150*time.Second, "how long loads are played before the pictures are taken")
	all := flag.Bool("all", false, "every view, light and dark, 1440 and 390 pixels wide")
	flag.Parse()
	if err := run(*out, *play, *all); err != nil {
		log.Fatal(err)
	}
}

func run(out string, play time.Duration, all bool) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	played, err := s.playAll(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(play): // the columns of the heat map are ten seconds each
	case err := <-played:
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	take := pictures
	if all {
		take = allPictures()
	}
	return s.takePictures(ctx, out, take)
}

// allPictures are of every view, to look at them.
func allPictures() (all []picture) {
	for _, view := range []string{"overview", "heatmap", "shards", "shards/2", "hotkeys", "jobs", "explain?key=product:4711", "data", "settings", "events", "advisor"} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1440, 390} {
				name := fmt.Sprintf("%s-%s-%d", filepath.Base(view), scheme, width)
				all = append(all, picture{name, "#/" + view, scheme, width, 900, "", `document.querySelector("[data-view]")`})
			}
		}
	}
	return all
}

// site is a server with its page.
type site struct {
	db        *cleave.DB
	server    *server.Server
	admin     *admin.Admin
	client    *api.Client
	redisAddr string
	dir       string
}

func start() (*site, error) {
	dir, err := os.MkdirTemp("", "cleave-shots")
	if err != nil {
		return nil, err
	}
	db, err := cleave.Open(filepath.Join(dir, "data"), cleave.Options{Groups: 4, Durability: cleave.EverySec, CacheBytes: 256 << 20, BlockCacheBytes: 16 << 20})
	if err != nil {
		return nil, err
	}
	clients, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	operators, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{db: db, dir: dir, redisAddr: clients.Addr().String()}
	s.server = server.New(db, server.Options{Fsync: "everysec", Version: "0.9.0"})
	s.admin, err = admin.New(admin.Options{DB: db, Server: s.server, Listener: operators, Token: token, Data: filepath.Join(dir, "data"), Backups: filepath.Join(dir, "backups"), Version: "0.9.0", Durability: "everysec"})
	if err != nil {
		return nil, err
	}
	s.client = &api.Client{Addr: operators.Addr().String(), Token: token, Timeout: time.Minute}
	go func() { _ = s.server.Serve(clients) }()
	go func() { _ = s.admin.Serve() }()
	return s, nil
}

func (s *site) close() error {
	s.server.Close()
	return errors.Join(s.admin.Close(), s.db.Close(), os.RemoveAll(s.dir))
}

// takePictures opens each view in a browser.
func (s *site) takePictures(ctx context.Context, out string, take []picture) error {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return fmt.Errorf("%w: scripts/deps installs it", err)
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.WSURLReadTimeout(time.Minute)}
	for _, flag := range []string{"headless", "no-sandbox", "disable-gpu", "hide-scrollbars", "no-first-run", "disable-background-networking"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	all, stop := chromedp.NewExecAllocator(ctx, options...)
	defer stop()
	ctx, cancel := chromedp.NewContext(all)
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		return err
	}
	for _, p := range take {
		if err := s.takePicture(ctx, filepath.Join(out, p.name+".png"), p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (s *site) takePicture(ctx context.Context, file string, p picture) error {
	ctx, cancel := chromedp.NewContext(ctx)
	defer cancel()
	scheme := func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: p.scheme}}})
		return err
	}
	err := chromedp.Do(ctx, chromedp.EmulateViewport(p.width, p.height), chromedp.Func(scheme), chromedp.Navigate("http://"+s.client.Addr+"/"+p.hash))
	if err != nil {
		return err
	}
	if err := waitFor(ctx, `document.querySelector("[data-view]")`, ""); err != nil {
		return err
	}
	if err := waitFor(ctx, p.until, p.before); err != nil {
		return err
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	return os.WriteFile(file, png, 0o644)
}

// waitFor runs a script until a condition holds in the page.
func waitFor(ctx context.Context, condition, script string) error {
	deadline := time.Now().Add(time.Minute)
	for {
		if script != "" {
			if _, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](script)); err != nil {
				return err
			}
		}
		if ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+condition+")")); err == nil && ok {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not come: %s", condition)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
