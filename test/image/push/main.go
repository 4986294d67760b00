// Command push pushes the image of a layout to a registry, and prints its name by digest and
// the lines that install it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/evictd/evictd/test/image/internal/oci"
)

func main() {
	layout := flag.String("layout", "bin/evictd-oci", "the OCI image layout")
	ref := flag.String("ref", "", "where to: registry/repository:tag")
	manifest := flag.String("manifest-name", "", "the name without a tag that the manifests have for the image")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	pushed, err := oci.Push(ctx, *layout, *ref)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image-push:", err)
		os.Exit(1)
	}
	fmt.Print(usage(pushed.Context().Name(), pushed.DigestStr(), *manifest))
}

// usage returns the reference and how to install it, by each of the ways of docs/install.md.
func usage(repository, digest, manifest string) string {
	return strings.NewReplacer("REPOSITORY", repository, "DIGEST", digest, "MANIFEST", manifest).Replace(
		`REPOSITORY@DIGEST

Install it with Helm:
  --set image.repository=REPOSITORY --set image.digest=DIGEST
With kustomize:
  kustomize edit set image MANIFEST=REPOSITORY@DIGEST
Where evictd runs already:
  kubectl --namespace evictd set image daemonset/evictd evictd=REPOSITORY@DIGEST
`)
}
