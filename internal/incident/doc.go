// Package incident gives a shortage its identity. A threshold's own state begins anew with
// each reading at its line, with the hard threshold after the soft one, with an edit of the
// configuration and with a restart; an incident goes on across all of them. It groups and
// names what happens in one shortage of one resource. It neither evicts nor forbids.
package incident
