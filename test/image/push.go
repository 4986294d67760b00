package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push pushes the index of a layout with all its images, by the credentials of `docker login`,
// and returns its name by digest. A registry on the loopback interface may speak plain HTTP.
func push(ctx context.Context, dir, ref string) (name.Digest, error) {
	tag, err := name.NewTag(ref, name.StrictValidation)
	if err != nil {
		return name.Digest{}, fmt.Errorf("pushing to %q: write it as registry/repository:tag: %w", ref, err)
	}
	index, err := readLayout(dir)
	if err != nil {
		return name.Digest{}, err
	}
	digest, err := index.Digest()
	if err != nil {
		return name.Digest{}, fmt.Errorf("reading the index of %s: %w", dir, err)
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return name.Digest{}, fmt.Errorf("pushing to %s: %w", tag, explain(err))
	}
	return tag.Digest(digest.String()), nil
}

// explain makes one sentence of an error of the connection: go-containerregistry reports each
// protocol that it tried, with the addresses of its requests.
func explain(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("the registry cannot be reached: %w", failed.Err)
	}
	return err
}

// usage returns the reference and how to install it, by each of the ways of docs/install.md.
func usage(repository, digest, manifest string) string {
	return strings.NewReplacer("REPOSITORY", repository, "DIGEST", digest, "MANIFEST", manifest).Replace(
		`REPOSITORY@DIGEST

Install it with Helm:
  --set image.repository=REPOSITORY --set image.digest=DIGEST
With kustomize:
  kustomize edit set image MANIFEST=REPOSITORY@DIGEST
Where this version of evictd runs already:
  kubectl --namespace evictd set image daemonset/evictd evictd=REPOSITORY@DIGEST
`)
}
