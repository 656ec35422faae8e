//! The profiler.

use ferromx_runtime::profiler;
use jni::objects::{JObjectArray, JString};
use jni::sys::jboolean;

use super::{attrs, native};

native! {
    fn profilerConfigure(
        env, keys: JObjectArray<'l, JString<'l>>, values: JObjectArray<'l, JString<'l>>)
    {
        Ok(profiler::configure(&attrs(env, &keys, &values)?)?)
    }

    fn profilerRun(_env, active: jboolean) {
        Ok(profiler::run(active)?)
    }

    fn profilerDump(_env, finished: jboolean) {
        Ok(profiler::dump(finished)?)
    }
}
