// Command image makes evictd's container image without an engine: one layer with one static binary, no shell
// and no libc. The same binary and release give the same bytes.
//
//	image archive --binary FILE --output FILE    a docker-archive for the binary's platform
//	image layout --output DIR linux/amd64=FILE…  an OCI image layout, and the SBOM of each platform beside it
//	image push --layout DIR --manifest-name NAME pushes the layout, and prints how to install it
//
// All of them take --ref, the first two also --version, --revision and --created.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("name a command: archive, layout or push")
	}
	var r release
	flags := flag.NewFlagSet("image "+arguments[0], flag.ContinueOnError)
	binary := flags.String("binary", "bin/evictd", "the static binary; the archive is for its platform")
	output := flags.String("output", "", "the docker-archive to write, or the directory to replace with the layout; SBOMs are named after it")
	layout := flags.String("layout", "bin/evictd-oci", "the OCI image layout to push")
	manifest := flags.String("manifest-name", "", "the name without a tag that the manifests have for the image")
	created := flags.Int64("created", 0, "the time of the commit, in seconds since 1970")
	flags.StringVar(&r.ref, "ref", "", "the name of the image, with its tag")
	flags.StringVar(&r.version, "version", "", "the version of evictd")
	flags.StringVar(&r.revision, "revision", "", "the commit; empty if it is not known")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	r.created = time.Unix(*created, 0).UTC()
	switch arguments[0] {
	case "archive":
		return writeArchive(*output, *binary, r)
	case "layout":
		return writeLayout(*output, r, flags.Args())
	case "push":
		pushed, err := push(ctx, *layout, r.ref)
		if err == nil {
			fmt.Print(usage(pushed.Context().Name(), pushed.DigestStr(), *manifest))
		}
		return err
	default:
		return fmt.Errorf("%q is no command: archive, layout or push", arguments[0])
	}
}
