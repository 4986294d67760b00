package config

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/internal/strictyaml"
)

// poll is how often the file is read. It is small, and a stop by dryRun waits for it.
const poll = 2 * time.Second

// Watch follows the file at path until ctx is done and then returns nil. It calls apply with every new
// configuration, and refused with every one that does not validate, cannot be read or that apply
// returned an error for, once for each; the one before then stays in force. What apply refused is
// tried again at each poll. Both are called from the goroutine that runs Watch.
//
// InForce is the configuration that the caller runs with. A file that means the same is not applied,
// unless the one before it was refused; a file that changed between [Load] and Watch is applied. Nil
// applies the file as it is found.
//
// The content is polled, so it does not matter how it changes: by a ConfigMap volume's swap of links,
// by an editor's rename, or in place. What two polls in a row found the same counts. In between a file
// may be missing or half written, and half a configuration may be a valid one. A file mounted by
// subPath cannot be followed: it never changes.
func Watch(
	ctx context.Context, path string, inForce *EvictdConfiguration,
	apply func(*EvictdConfiguration) error, refused func(error),
) error {
	f := &follower{path: path, inForce: inForce, apply: apply, refused: refused}
	wait.UntilWithContext(ctx, f.look, poll)
	return nil
}

// follower is one run of [Watch].
type follower struct {
	path    string
	apply   func(*EvictdConfiguration) error
	refused func(error)

	seen    string // by the last poll: the content, and why it could not be read
	judged  bool   // nothing is to be done until something else is seen
	failed  string // the fault last reported; empty once a file was good
	inForce *EvictdConfiguration
}

// look reads the file, and reports what it says if that is new and lasts.
func (f *follower) look(context.Context) {
	content, fault := strictyaml.ReadFile(f.path, form.What)
	switch seen := fmt.Sprintf("%s %v", content, fault); {
	case seen != f.seen:
		f.seen, f.judged = seen, false
	case !f.judged:
		f.judged = f.judge(content, fault)
	}
}

// judge reports what was found, and returns false where it is to be tried again.
func (f *follower) judge(content []byte, err error) bool {
	var c *EvictdConfiguration
	if err == nil {
		c, err = ParseFile(f.path, content)
	}
	switch {
	case err != nil:
		f.refuse(err)
		return true
	case f.failed == "" && equality.Semantic.DeepEqual(c, f.inForce):
		return true
	}
	if err = f.apply(c); err != nil {
		f.refuse(fmt.Errorf("%w; trying again every %v", err, poll))
		return false
	}
	f.failed, f.inForce = "", c
	return true
}

// refuse reports a fault unless it is the one reported last.
func (f *follower) refuse(err error) {
	if err.Error() != f.failed {
		f.failed = err.Error()
		f.refused(err)
	}
}
