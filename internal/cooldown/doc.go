// Package cooldown remembers which pods may not be evicted for now, until when and why. See
// docs/adr/0012-share-a-pdb-refusal.md and docs/adr/0014-state-in-memory-and-a-careful-start.md.
package cooldown
