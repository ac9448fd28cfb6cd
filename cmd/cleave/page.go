package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

// pageAddress is where the page of a server is.
type pageAddress struct {
	URL string `json:"url"`
	// SignsIn reports whether the page can change something at once: the address has the token.
	SignsIn bool `json:"signs_in"`
}

// newPageCommand prints the address of the page. The token is behind the #, which a browser sends to no
// server, and the page takes it out of the address.
func newPageCommand() *cobra.Command {
	var r remote
	var noToken bool
	cmd := &cobra.Command{
		Use: "page", Short: "Print the address of the server's page, which signs in when it is opened",
		Long: `Print the address of the server's page, which signs in when it is opened.

The address has the token: who has it can change the server. --no-token prints one
that can be shared; its page asks for the token when something is to be changed.`,
		Example: "  cleave page\n  xdg-open \"$(cleave page)\"\n  cleave page --no-token",
		Args:    noArgs, ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return r.runWithClient(cmd, func(ctx context.Context, c *api.Client) error {
			if _, err := c.Status(ctx); err != nil {
				return err
			}
			base, err := c.BaseURL()
			if err != nil {
				return err
			}
			at := pageAddress{URL: base + "/"}
			switch {
			case noToken:
			case c.Token == "":
				fmt.Fprintln(cmd.ErrOrStderr(), "There is no token here: the page will ask for it when something is to be changed.")
			default:
				at.URL, at.SignsIn = at.URL+"#token="+url.PathEscape(c.Token), true
			}
			return output.WriteOne(cmd.OutOrStdout(), r.format, at, func(at pageAddress) string { return at.URL + "\n" })
		})
	}
	cmd.Flags().BoolVar(&noToken, "no-token", false, "leave the token out of the address")
	r.addFlags(cmd)
	return cmd
}
