// Package execute carries a plan out: only this package sends eviction requests. It works by the
// plan that it is given and returns one report; it neither reads nor writes the agent's memory. See
// docs/adr/0025-a-plan-is-carried-out-beside-the-loop.md.
package execute
