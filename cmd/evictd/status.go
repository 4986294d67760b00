package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/wording"
)

const (
	// loopTimeout bounds how long the loop may take for a document, with a measurement of the disks.
	loopTimeout = 15 * time.Second
	// statusTimeout bounds a command that asks for one.
	statusTimeout = 20 * time.Second
	// defaultAddress is where evictd serves its pages.
	defaultAddress = ":9464"
)

func newStatusCommand() *cobra.Command {
	address, output := "", formatTable
	const short = "Print what the evictd of this pod knows: signals, what is in flight, who is next, back-offs, decisions"
	cmd := newCommand("status", short, func(cmd *cobra.Command) error {
		d, text, err := askStatus(cmd.Context(), address, false)
		if err != nil {
			return err
		}
		if output == formatJSON {
			_, err = cmd.OutOrStdout().Write(text)
			return err
		}
		return d.WriteTable(cmd.OutOrStdout())
	})
	addAddress(cmd.Flags(), &address)
	addChoice(cmd, &output, "output", "o", "table or json", formatTable, formatJSON)
	return cmd
}

// addAddress adds the flag for the address of the evictd that a command asks.
func addAddress(flags *pflag.FlagSet, address *string) {
	flags.StringVar(address, "http-bind-address", "", "where evictd serves its pages; that of the container's evictd when left out, else "+defaultAddress)
}

// askStatus asks the running evictd for its document, with the pods' disk use or without, and returns its text too.
func askStatus(ctx context.Context, address string, disk bool) (*status.Document, []byte, error) {
	if address == "" {
		address = addressOf("/proc/1/cmdline")
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	text, err := fetch(ctx, "http://"+address+status.Path+"?disk="+strconv.FormatBool(disk))
	if err != nil {
		return nil, nil, fmt.Errorf("asking evictd at %s: %w; run this in the pod of a running evictd, or name where it serves by --http-bind-address", address, err)
	}
	d, err := status.Read(bytes.NewReader(text))
	return d, text, err
}

// fetch returns a page of evictd's, and its text as the error where it refuses.
func fetch(ctx context.Context, page string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request) // without a proxy
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(io.LimitReader(response.Body, status.MaxBytes+1))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %d: %s", response.StatusCode, wording.OneLine(strings.TrimSpace(string(text))))
	}
	return text, err
}

// addressOf returns the address of the `evictd run` that has that command line, which in evictd's
// container is the first process; the default where it is another program.
func addressOf(commandLine string) string {
	text, err := os.ReadFile(commandLine) //nolint:gosec // a constant
	words := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	if err != nil || len(words) < 2 || words[1] != "run" {
		return defaultAddress
	}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	address := flags.String("http-bind-address", defaultAddress, "")
	if flags.Parse(words[2:]) != nil {
		return defaultAddress
	}
	return *address
}

// status returns the document of this evictd, for those who ask it.
func (d *daemon) status(ctx context.Context, disk bool) (*status.Document, error) {
	if refused := d.refused.Load(); refused.atStart() == insteadIdle {
		return nil, refused.ready()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, loopTimeout, fmt.Errorf("no answer within %v", loopTimeout))
	defer cancel()
	document, err := d.agent.Status(ctx, disk)
	if err != nil {
		return nil, err
	}
	document.EvictdVersion, document.Revision, document.NodeName = buildVersion(), revision, d.flags.nodeName
	document.Configuration, document.Decisions = d.inForce.Load(), d.recorder.LastDecisions()
	document.Rank(document.Short())
	return document, nil
}
