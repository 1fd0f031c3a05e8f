// A Rust library whose worker thread panics, built with panic=abort as wheels often are.
pub trait Sampler<T> {
    fn draw(&mut self, n: usize) -> Option<T>;
}

pub struct Loader<T, const N: usize> {
    pub rows: [T; N],
}

impl<T: Clone, const N: usize> Sampler<T> for Loader<T, N> {
    #[inline(never)]
    fn draw(&mut self, n: usize) -> Option<T> {
        Some(self.rows[n].clone())
    }
}

#[no_mangle]
pub extern "C" fn run_batch(n: usize) {
    let mut loader = Loader::<f32, 3> { rows: [1.0, 2.0, 3.0] };
    let worker = std::thread::spawn(move || println!("{:?}", loader.draw(n)));
    worker.join().unwrap();
}
