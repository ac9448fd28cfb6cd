package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/demo"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/ops/terminal"
)

func newDemoCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo [STORY]",
		Short: "Play a story about a hot spot, on a server of its own",
		Long: `Play a story about a hot spot, on a server of its own. Without a name the stories
are listed.

A server is started in this process, with default settings, on free ports of
loopback. Clients make a shard hot; the store finds that, says why and what it does,
a remedy is applied, and figures of before and after are printed, which were
measured meanwhile. The server and its directory are gone at the end, and after
Ctrl-C.`,
		Example: "  cleave demo\n  cleave demo black-friday\n  cleave demo flash-sale --keep",
		Args:    atMostOneArg("STORY"),
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, s := range demo.Stories() {
				names = append(names, cobra.CompletionWithDesc(s.Name, s.About))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listStories(cmd)
			}
			return playStory(cmd, args[0], keep)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the server running at the end, until Ctrl-C")
	return cmd
}

// listStories prints which stories there are.
func listStories(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	for _, s := range demo.Stories() {
		text := fmt.Sprintf("%s (about %s): %s", s.Name, output.Seconds(s.Takes.Seconds()), s.About)
		if _, err := fmt.Fprintln(out, output.WrapTo(text, terminal.Width(out))); err != nil {
			return err
		}
	}
	return nil
}

// playStory plays a story until its end, or Ctrl-C.
func playStory(cmd *cobra.Command, name string, keep bool) error {
	s, ok := demo.Find(name)
	if !ok {
		return usageError{fmt.Errorf("there is no story %q: cleave demo lists them", name)}
	}
	ctx, stop := signalContext(cmd)
	defer stop()
	out := cmd.OutOrStdout()
	_, err := demo.Run(ctx, s, demo.Options{
		Out: out, Width: min(terminal.Width(out), output.MaxWidth), Bold: terminal.CanColor(out), Progress: newTerminal(cmd).NewProgress(), Keep: keep,
	})
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	return err
}
