// Package fleet runs many calm agents in one process against one real API server. Their requests are
// real: they are made by the product's own parts. Their nodes exist in the API alone, and the readings of
// the nodes are simulated.
package fleet
