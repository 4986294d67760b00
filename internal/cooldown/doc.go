// Package cooldown knows which pods may not be evicted for now, until when and why: one
// [Tracker] for pods, owners, workloads, the node and the API server. It learns from reports
// and by time only. See docs/adr/0012 (a PDB's refusal) and 0021 (soft jitter).
package cooldown
