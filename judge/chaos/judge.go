package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// effectsLog is the file to which every step adds a line when it has been done.
func (c *chaos) effectsLog() string { return filepath.Join(c.machines, "effects.log") }

// waitsLog is the file to which every step adds a line when it goes on, under its lease, after it has waited.
func (c *chaos) waitsLog() string { return filepath.Join(c.machines, "waits.log") }

// observe reads the database and then the log of effects.
func (c *chaos) observe(ctx context.Context) error {
	c.reading.Lock() // what was read first is observed first
	defer c.reading.Unlock()
	ids := c.ledger.acknowledged()
	records, err := c.observer.records(ctx)
	if err != nil {
		return fmt.Errorf("reading the journals: %w", err)
	}
	at := time.Now()
	effects, err := readEffects(c.effectsLog())
	if err != nil {
		return err
	}
	c.ledger.observe(at, ids, records, effects)
	return nil
}

// judge observes, and then checks the leases and all that was done under them. It returns the effects that were done
// in time.
func (c *chaos) judge(ctx context.Context) ([]effect, error) {
	if err := c.observe(ctx); err != nil {
		return nil, err
	}
	// In this order: each effect that is read has had its lease noted.
	effects, err := readEffects(c.effectsLog())
	if err != nil {
		return nil, err
	}
	waits, err := readEffects(c.waitsLog())
	if err != nil {
		return nil, err
	}
	changes, entries, err := c.observer.changes(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading what the database noted: %w", err)
	}
	claims := c.ledger.inspect(changes, entries)
	c.ledger.interrupted(waits, claims)
	return c.ledger.inTime(effects, claims), nil
}
