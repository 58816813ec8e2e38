// The time cursor: plays, pauses, steps, drags.

export class Player {
  at = 0; // 0 to 1
  playing = false;
  seconds = 9; // from start to end
  private last = 0;
  private moved: (at: number, playing: boolean) => void;

  constructor(moved: (at: number, playing: boolean) => void) {
    this.moved = moved;
  }

  set(at: number): void {
    this.at = Math.max(0, Math.min(1, at));
    this.moved(this.at, this.playing);
  }

  step(by: number): void {
    this.playing = false;
    this.set(this.at + by);
  }

  toggle(): void {
    if (this.playing) {
      this.playing = false;
      this.moved(this.at, false);
      return;
    }
    if (this.at >= 1) this.at = 0;
    this.playing = true;
    this.last = performance.now();
    requestAnimationFrame((now) => this.tick(now));
  }

  private tick(now: number): void {
    if (!this.playing) return;
    this.at = Math.min(1, this.at + Math.max(0, now - this.last) / 1000 / this.seconds);
    this.last = now;
    if (this.at >= 1) this.playing = false;
    this.moved(this.at, this.playing);
    if (this.playing) requestAnimationFrame((next) => this.tick(next));
  }
}
