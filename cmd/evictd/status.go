package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/wording"
)

const (
	// statusTimeout bounds a command that asks the running evictd.
	statusTimeout = 20 * time.Second
	// debugAddress is where evictd serves its document, which names pods.
	debugAddress = "127.0.0.1:9465"
)

func newStatusCommand() *cobra.Command {
	var address, output string
	const short = "Print what the evictd of this pod knows: signals, what is in flight, who is next, back-offs, decisions"
	cmd := newCommand("status", short, func(cmd *cobra.Command, _ []string) error {
		d, err := askStatus(cmd.Context(), address, false)
		switch {
		case err != nil:
			return err
		case output == formatJSON:
			return writeJSON(cmd.OutOrStdout(), d)
		default:
			return d.WriteTable(cmd.OutOrStdout())
		}
	})
	addDebugAddress(cmd, &address, "where evictd serves its document")
	addChoice(cmd, &output, "output", "o", formatTable, formatJSON)
	return cmd
}

// addDebugAddress adds the flag for the address of the document, which has the same variable where it is served and
// where it is asked for.
func addDebugAddress(cmd *cobra.Command, address *string, usage string) {
	cmd.Flags().StringVar(address, "debug-bind-address", debugAddress, usage)
}

// askStatus asks the running evictd for its document, with the pods' disk use or without.
func askStatus(ctx context.Context, address string, disk bool) (*status.Document, error) {
	if switchedOff(address) {
		return nil, fmt.Errorf("asking evictd: it serves its document nowhere, as --debug-bind-address is %q; give evictd run an address there", address)
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	d, err := fetch(ctx, "http://"+address+"/debug/status?disk="+strconv.FormatBool(disk))
	if err != nil {
		return nil, fmt.Errorf("asking evictd at %s: %w; run this in the pod of a running evictd, or name where it serves by --debug-bind-address", address, err)
	}
	return d, nil
}

// fetch reads a document from a page of evictd's, whose text is the error where it refuses.
func fetch(ctx context.Context, page string) (*status.Document, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request) // without a proxy
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if response.StatusCode == http.StatusOK {
		return status.Read(response.Body)
	}
	const longest = 1 << 10
	text, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("it answers %d: %s", response.StatusCode, wording.OneLine(strings.TrimSpace(string(text))))
}
